"""Sockets and frames; knows no APIs. In reading order:

`replies`     what a served frame may come back as
`buffers`     receive buffers, lent to connections while bytes are on their way
`send_queue`  answers on their way out: bytes, and slices of files by sendfile
`connection`  one client: frames in, answers out, in order and with back-pressure
`listener`    accepts, counts and limits connections; drops idle and stalled ones
`free_ports`  ports for servers of development clusters and tests
"""
