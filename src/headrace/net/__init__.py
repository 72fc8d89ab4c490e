"""Sockets and frames; knows no APIs. In reading order:

`replies`     result of serving a frame: an answer now, or one `Pending`
`buffers`     pool of receive buffers; `incoming` is the buffer of one connection
`send_queue`  answers to send: bytes, and slices of files by sendfile
`connection`  one client: frames in, answers out, in order and with back-pressure
`encrypted_queue`, `tls_connection`  the same through TLS; `handshakes` limits unauthenticated connections
`traffic`     bytes and connections of a listener, counted
`listener`    accepts, counts and limits connections; drops idle and stalled ones
`port_holder` the process that uses a port
`free_ports`  ports for servers of development clusters and tests
"""
