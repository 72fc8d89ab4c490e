"""Sockets and frames; knows no APIs. In reading order:

`replies`     what serving a frame gives back: an answer now, or one `Pending`
`buffers`     receive buffers, lent to connections; `incoming` is the buffer of one connection
`send_queue`  answers on their way out: bytes, and slices of files by sendfile
`connection`  one client: frames in, answers out, in order and with back-pressure
`encrypted_queue`, `tls_connection`  the same through TLS; `handshakes` limits those that have not proven themselves
`traffic`     bytes and connections of a listener, counted
`listener`    accepts, counts and limits connections; drops idle and stalled ones
`port_holder` who has a port that is taken
`free_ports`  ports for servers of development clusters and tests
"""
