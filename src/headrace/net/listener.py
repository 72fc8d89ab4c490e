"""Accepts, counts and limits connections, and closes idle and stalled ones.

Kafka's acceptor. A connection beyond `max.connections` or `max.connections.per.ip` is closed at once. Every few seconds
the listener closes connections that were idle for `connections.max.idle.ms`, or that stopped in the middle of a frame
or of reading an answer. Each close is one log line with the peer's address.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.net.buffers import BufferPool
from headrace.net.connection import Connection, Serve
from headrace.net.handshakes import Handshakes
from headrace.net.tls_connection import Encryption, TlsConnection
from headrace.net.traffic import Traffic

log = logging.getLogger("headrace.net")

# Connections accepted in one turn before existing clients run.
_ACCEPTED_PER_TURN: Final = 64
# The same for TLS, where OpenSSL sets up each connection before its first byte is read.
_ENCRYPTED_PER_TURN: Final = 4
# While the limit of unauthenticated connections is reached: one connection, then this pause, so 330 a second. Several
# at once would delay the requests of other clients by all of them together.
_ACCEPTED_WHEN_FULL: Final = 1
_PAUSE_WHEN_FULL_S: Final = 0.003
_SWEEP_INTERVAL_S: Final = 5.0
_HELD_BACK_AT_MOST_S: Final = 1.0
_PAUSE_WHEN_OUT_OF_FILES_S: Final = 1.0


@dataclass(frozen=True)
class ConnectionLimits:
    max_frame_bytes: int = 100 * 1024 * 1024
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    per_ip_overrides: dict[str, int] = field(default_factory=dict)
    idle_ms: int = 600_000
    # How long a client may stop in the middle of a frame, because it holds a buffer.
    stalled_ms: int = 60_000
    # Send buffer of the kernel for each connection; -1 lets it grow to megabytes.
    send_buffer_bytes: int = -1
    # Backlog: connections that may wait to be accepted.
    backlog: int = 1024


def _holds_back_none(host: str) -> int:
    return 0


class CannotListen(Exception):
    """The address cannot be bound; the message says which and why."""


class Listeners:
    """All listening sockets of a broker, and their connections."""

    def __init__(
        self,
        serve: Serve,
        limits: ConnectionLimits,
        loop: asyncio.AbstractEventLoop,
        hold_back: Callable[[str], int] = _holds_back_none,
    ) -> None:
        """`hold_back` is a quota on new connections: it takes the address, and returns how many milliseconds an
        excess connection is kept before it is closed."""
        self.limits = limits
        self.traffic = Traffic()
        self.pool = BufferPool()
        self.connections: set[Connection] = set()
        self._serve = serve
        self._loop = loop
        self._per_ip: Counter[str] = Counter()
        self._sockets: dict[str, socket.socket] = {}
        self._max_login_bytes: dict[str, int] = {}
        self._encryption: dict[str, Encryption] = {}
        self.handshakes = Handshakes(loop)
        self._sweep: asyncio.TimerHandle | None = None
        self._hold_back = hold_back

    def bind(self, name: str, host: str, port: int) -> tuple[str, int]:
        """Binds one address without listening yet. Returns the real host and port. Raises CannotListen."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            if self.limits.send_buffer_bytes >= 0:
                # Accepted sockets inherit it. Reads from the page cache are 50 % faster than with a buffer
                # that the system lets grow (docs/performance.md).
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
            sock.bind((host, port))
        except (OSError, OverflowError) as error:
            sock.close()
            raise CannotListen(f"cannot listen on {host or '*'}:{port}: {describe_bind_error(error, port)}") from error
        self._sockets[name] = sock
        bound = sock.getsockname()
        return bound[0], bound[1]

    def require_login(self, name: str, max_login_bytes: int) -> None:
        """Connections of this listener must log in; frames before that have this limit."""
        self._max_login_bytes[name] = max_login_bytes

    def encrypt(self, name: str, encryption: Encryption) -> None:
        """Connections of this listener use TLS."""
        self._encryption[name] = encryption

    def start(self) -> None:
        """Begins to accept on every bound address. Raises CannotListen."""
        for name, sock in self._sockets.items():
            try:
                sock.listen(self.limits.backlog)
            except OSError as error:
                host, port = sock.getsockname()[:2]
                raise CannotListen(f"cannot listen on {host}:{port}: {describe_bind_error(error, port)}") from error
            self._loop.add_reader(sock, self._accept, name, sock)
        self._sweep = self._loop.call_later(_SWEEP_INTERVAL_S, self._drop_silent)

    def _accept(self, name: str, sock: socket.socket) -> None:
        at_most = _ENCRYPTED_PER_TURN if name in self._encryption else _ACCEPTED_PER_TURN
        for _ in range(_ACCEPTED_WHEN_FULL if self._pauses(name, sock) else at_most):
            try:
                accepted, peer = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    log.error("no more connections can be accepted for now: %s", error)
                    self._loop.remove_reader(sock)
                    self._loop.call_later(_PAUSE_WHEN_OUT_OF_FILES_S, self._accept_again, name, sock)
                    return
                raise
            self._admit(name, accepted, (_address(peer[0]), peer[1]))

    def _pauses(self, name: str, sock: socket.socket) -> bool:
        """Whether this turn is the last one for a while: too many clients of such listeners have not proven
        themselves."""
        if not self.handshakes.is_full or not (name in self._encryption or name in self._max_login_bytes):
            return False
        self._loop.remove_reader(sock)
        self._loop.call_later(_PAUSE_WHEN_FULL_S, self._accept_again, name, sock)
        return True

    def _accept_again(self, name: str, sock: socket.socket) -> None:
        if self._sockets.get(name) is sock:
            self._loop.add_reader(sock, self._accept, name, sock)

    def _admit(self, name: str, sock: socket.socket, peer: tuple[str, int]) -> None:
        limits, host = self.limits, peer[0]
        per_ip = limits.per_ip_overrides.get(host, limits.max_connections_per_ip)
        if len(self.connections) >= limits.max_connections:
            refusal = f"max.connections={limits.max_connections} are open"
        elif self._per_ip[host] >= per_ip:
            refusal = f"max.connections.per.ip={per_ip} are open from there"
        else:
            refusal = None
        if refusal is not None:
            self.traffic.refused += 1
            log.warning("%s:%d: refused, %s", *peer, refusal)
            sock.close()
            return
        wait_ms = self._hold_back(host)
        if wait_ms:
            # Closed after a delay: otherwise the client would reconnect at once.
            self.traffic.refused += 1
            self._loop.call_later(min(wait_ms / 1000, _HELD_BACK_AT_MOST_S), sock.close)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._per_ip[host] += 1
        self.traffic.accepted += 1
        connection = self._connection(name, sock, peer)
        self.connections.add(connection)
        if not connection.is_proven:
            self.handshakes.begin(connection)

    def _connection(self, name: str, sock: socket.socket, peer: tuple[str, int]) -> Connection:
        encryption = self._encryption.get(name)
        make: Callable[..., Connection] = Connection
        if encryption is not None:
            make = partial(TlsConnection, encryption=encryption, handshakes=self.handshakes)
        return make(
            sock,
            peer,
            listener=name,
            loop=self._loop,
            pool=self.pool,
            traffic=self.traffic,
            serve=self._serve,
            max_frame_bytes=self.limits.max_frame_bytes,
            on_closed=self._closed,
            max_login_bytes=self._max_login_bytes.get(name),
        )

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.handshakes.forget(connection)
        self.traffic.closed += 1
        host = connection.peer_host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]

    def _drop_silent(self) -> None:
        now = self._loop.time()
        for connection in list(self.connections):
            silent_ms = (now - connection.last_active) * 1000
            if connection.is_in_the_middle and silent_ms > self.limits.stalled_ms:
                log.info("%s: closed, it stopped in the middle %d ms ago", connection, silent_ms)
                connection.close()
            elif 0 <= self.limits.idle_ms < silent_ms and not connection.is_waited_for:
                log.debug("%s: closed, idle for %d ms", connection, silent_ms)
                connection.close()
        self._sweep = self._loop.call_later(_SWEEP_INTERVAL_S, self._drop_silent)

    def stop_accepting(self) -> None:
        for sock in self._sockets.values():
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()

    def close(self) -> None:
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self.connections):
            connection.close()
        self.handshakes.close()


def _address(host: str) -> str:
    """A dual-stack socket shows 10.0.0.1 as ::ffff:10.0.0.1. Limits and quotas name the former, as in Kafka."""
    return host.removeprefix("::ffff:") if "." in host else host


def describe_bind_error(error: Exception, port: int) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        from headrace.net.port_holder import explain_taken  # imported here: needed only if a start fails

        return explain_taken(port)
    if code == errno.EADDRNOTAVAIL:
        return "no interface of this machine has that address"
    if code == errno.EACCES:
        return "ports below 1024 need a privilege"
    return str(error)
