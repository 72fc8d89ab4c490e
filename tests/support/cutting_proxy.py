"""A proxy in front of ZooKeeper that drops the connection at one chosen request, as a starting server does.

    with CuttingProxy(zookeeper.port, at=7, cut=Cut.UNANSWERED) as proxy:
        broker({"zookeeper.connect": f"127.0.0.1:{proxy.port}"})

The proxy counts requests over all connections, including the handshake of each connection. It forwards all requests
after the chosen one.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from enum import Enum
from types import TracebackType


class Cut(Enum):
    UNHEARD = "the connection ends before the server gets the request"
    UNANSWERED = "the server executes the request, and the connection ends before its answer"
    EXPIRED = "the server has ended the session when the client reconnects"


class SilentProxy:
    """Accepts connections in front of ZooKeeper and answers none of them until `answer` is called.

    A ZooKeeper server that is starting does this with its first connections.
    """

    def __init__(self, server_port: int) -> None:
        self.unanswered = 0
        self._answers = False
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()

    def __enter__(self) -> SilentProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        self.cut()

    def answer(self, *, now: bool) -> None:
        """Sets whether new connections of clients reach ZooKeeper."""
        self._answers = now

    def cut(self) -> None:
        """Closes every connection."""
        for one in tuple(self._open):
            _close(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.add(client)
                if not self._answers:
                    self.unanswered += 1
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open.add(server)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


class CuttingProxy:
    def __init__(self, server_port: int, *, at: int, cut: Cut) -> None:
        self.requests = 0
        self._server_port = server_port
        self._at = at
        self._cut = cut
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()

    @property
    def has_cut(self) -> bool:
        return self.requests >= self._at

    def __enter__(self) -> CuttingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for one in tuple(self._open):
            _close(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._server_port))
        except OSError:
            _close(client)
            return
        self._open.add(server)
        answered = threading.Event()
        losing = threading.Event()

        def back() -> None:
            with contextlib.suppress(OSError, ConnectionError):
                while True:
                    frame = _frame(server)
                    if losing.is_set():
                        answered.set()
                    else:
                        client.sendall(frame)
            answered.set()
            _close(client)

        threading.Thread(target=back, daemon=True).start()
        with contextlib.suppress(OSError, ConnectionError):
            while True:
                frame = _frame(client)
                with self._lock:
                    self.requests += 1
                    chosen = self.requests == self._at
                if chosen and self._cut is not Cut.UNHEARD:
                    losing.set()
                if not chosen or self._cut is Cut.UNANSWERED:
                    server.sendall(frame)
                if chosen:
                    if self._cut is Cut.EXPIRED:
                        server.sendall(struct.pack(">iii", 8, 1, -11))  # closeSession, in the client's name
                    if self._cut is not Cut.UNHEARD:
                        answered.wait(5)
                    break
        _close(client)
        _close(server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _close(target)


def _frame(source: socket.socket) -> bytes:
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise ConnectionError("the peer closed the connection")
        data += more
    return data


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
