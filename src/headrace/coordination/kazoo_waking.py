"""How a request wakes kazoo's connection thread: with a byte in a socket pair, written on the caller's thread.

While the ensemble is away nobody reads those bytes. A pair that waits for room would stop the caller, which is the
broker's event loop, after some hundred requests, until the ensemble is back. Here a full pair refuses the byte instead,
and kazoo fails that request.
"""

from __future__ import annotations

import socket

from kazoo.handlers.threading import SequentialThreadingHandler


class NeverWaiting(SequentialThreadingHandler):  # type: ignore[misc]
    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        reading, writing = socket.socketpair()
        writing.setblocking(False)
        return reading, writing
