"""One client connection: frames in, answers out in the order of the requests, with back-pressure.

It works like Kafka's processor with its muted channels, on one event loop. A readable socket is read into a buffer from
the pool; every whole frame in it is served at once, as a memoryview of that buffer; the answers of one round are sent
by one system call. The frame is valid only until `serve` returns: data that must live longer is copied or, for records,
is in the log by then.

The connection serves no frame while an answer is awaited (see `Pending`), while the client is throttled, or while it
does not read its answers. Then it does not read either, and TCP makes the client wait. So a connection owns at most one
buffer, and the answers of at most one round.

Owned by the event loop; never called from another thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from headrace.kernel.ids import ANONYMOUS
from headrace.net.buffers import BufferPool
from headrace.net.incoming import Incoming
from headrace.net.replies import CLOSE, Bytes, Close, Parts, Pending, Reply
from headrace.net.send_queue import SendQueue
from headrace.net.traffic import Traffic

log = logging.getLogger("headrace.net")

_read_length: Final = struct.Struct(">i").unpack_from
# Unread answers of a client before its next request waits.
_UNSENT_LIMIT_BYTES: Final = 256 * 1024
# Outstanding acknowledgements of one connection; clients have up to 5, load generators a few dozen.
_OVERLAPPING_LIMIT: Final = 256
# Frames in one turn before other connections run: a client may send thousands of small ones at once.
_FRAMES_IN_A_TURN: Final = 64
# How long a large frame waits before it asks again for memory.
_WAIT_FOR_MEMORY_MS: Final = 50

Serve = Callable[[memoryview, "Connection"], Reply]


class Connection:
    __slots__ = (
        "_awaited",
        "_closed",
        "_closing",
        "_incoming",
        "_leaving",
        "_loop",
        "_max_frame_bytes",
        "_max_frame_bytes_of_clients",
        "_on_closed",
        "_pending",
        "_queue",
        "_reading",
        "_serve",
        "_sock",
        "_throttled",
        "_traffic",
        "_waits_for_memory",
        "_writing",
        "authenticated",
        "claims",
        "guarded",
        "last_active",
        "listener",
        "peer_host",
        "peer_port",
        "principal",
        "software",
        "state",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer: tuple[str, int],
        *,
        listener: str,
        loop: asyncio.AbstractEventLoop,
        pool: BufferPool,
        traffic: Traffic,
        serve: Serve,
        max_frame_bytes: int,
        on_closed: Callable[[Connection], None],
        max_login_bytes: int | None = None,
    ) -> None:
        """`max_login_bytes`: on a listener with a login, the limit of frames before it."""
        self.peer_host, self.peer_port = peer
        self.listener = listener
        self.last_active = loop.time()
        # Principal of the client, set by its certificate or its login. `authenticated` is False only if the listener
        # requires a login that has not succeeded yet.
        self.principal = ANONYMOUS
        # Claims of the client's token that may make it a member of roles.
        self.claims: tuple[str, ...] = ()
        self.software: tuple[str, str] | None = None
        self.authenticated = max_login_bytes is None
        # Whether every frame goes through the login: until it succeeds, and afterwards if the session has an end.
        self.guarded = not self.authenticated
        # State of the login.
        self.state: object = None
        self._sock = sock
        self._loop = loop
        self._traffic = traffic
        self._serve = serve
        self._max_frame_bytes_of_clients = max_frame_bytes
        self._max_frame_bytes = max_frame_bytes if max_login_bytes is None else min(max_login_bytes, max_frame_bytes)
        self._on_closed = on_closed
        self._incoming = Incoming(pool, is_login=max_login_bytes is not None)
        self._queue = SendQueue()
        self._pending: deque[Pending] | None = None
        self._awaited = False
        self._leaving = False
        self._throttled: asyncio.Handle | None = None
        self._waits_for_memory = False
        self._reading = True
        self._writing = False
        self._closed = False
        self._closing: dict[Hashable, Callable[[], None]] | None = None
        loop.add_reader(sock, self._readable)

    def __str__(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_proven(self) -> bool:
        """Whether the handshake and the login are complete."""
        return self.authenticated

    @property
    def is_waited_for(self) -> bool:
        """Whether the client waits for an answer of the broker."""
        return self._awaited or bool(self._pending) or self._throttled is not None

    @property
    def is_in_the_middle(self) -> bool:
        """Whether the rest of a frame is missing or an answer is unread."""
        # While an answer is awaited or the client is throttled, the broker does not read the rest.
        is_read = not self._awaited and (self._throttled is None or self._waits_for_memory)
        return self._queue.size_bytes > 0 or (self._incoming.end > self._incoming.start and is_read)

    def logged_in(self, principal: str, *, stays_guarded: bool, claims: tuple[str, ...] = ()) -> None:
        """The login or a re-authentication has succeeded."""
        self.principal = principal
        self.claims = claims
        self.authenticated = True
        self.guarded = stays_guarded
        self._max_frame_bytes = self._max_frame_bytes_of_clients
        self._incoming.trust()

    # Reading

    def _may_serve(self) -> bool:
        return not (
            self._closed
            or self._awaited
            or self._throttled is not None
            or self._queue.size_bytes > _UNSENT_LIMIT_BYTES
            or (self._pending is not None and len(self._pending) >= _OVERLAPPING_LIMIT)
        )

    def _readable(self) -> None:
        if not self._may_serve():
            self._stop_reading()
            return
        incoming = self._incoming
        try:
            received = self._sock.recv_into(incoming.room())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if received == 0:
            self.close()
            return
        self.last_active = self._loop.time()
        self._traffic.bytes_in += received
        incoming.end += received
        self._serve_frames()

    def _stop_reading(self) -> None:
        try:
            gone = self._peek() == b""
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            gone = True
        if gone and not self._serves_soon():
            self.close()
        elif self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock)

    def _serves_soon(self) -> bool:
        """Whether received frames wait for their turn or for the end of a throttle. They are served also if the client
        has closed meanwhile: a producer with acks=0 closes as soon as it has sent its last record."""
        incoming = self._incoming
        buffer, there = incoming.buffer, incoming.end - incoming.start
        if self._throttled is None or buffer is None or there < 4:
            return False
        (size,) = _read_length(buffer, incoming.start)
        return bool(4 + size <= there)

    def _peek(self) -> bytes:
        return self._sock.recv(1, socket.MSG_PEEK)

    def _serve_frames(self) -> None:
        incoming = self._incoming
        buffer, start, end = incoming.buffer, incoming.start, incoming.end
        assert buffer is not None
        queue, serve, max_frame_bytes = self._queue, self._serve, self._max_frame_bytes
        needed, left = 0, _FRAMES_IN_A_TURN
        while end - start >= 4:
            # The caller has checked this before the first frame.
            if left < _FRAMES_IN_A_TURN and not self._may_serve():
                # Perhaps only the unsent answers of this round block it.
                self._flush()
                if not self._may_serve():
                    break
            if not left:
                self._throttled = self._loop.call_soon(self._unthrottle)
                break
            left -= 1
            (size,) = _read_length(buffer, start)
            if not 0 <= size <= max_frame_bytes:
                log.warning("%s: closed, a frame of %d bytes (at most %d are taken)", self, size, max_frame_bytes)
                self.close()
                return
            stop = start + 4 + size
            if stop > end:
                needed = 4 + size
                break
            try:
                reply = serve(buffer[start + 4 : stop], self)
            except Exception:
                # Boundary of one request: its failure closes this connection and must not reach the event loop.
                log.exception("%s: closed, its request could not be served", self)
                reply = CLOSE
            start = stop
            if reply is CLOSE:
                self._flush()
                self.close()
                return
            if type(reply) is bytearray and not self._pending:
                if stop == end and not queue.size_bytes:
                    self._flush(reply)
                else:
                    queue.push(reply)
            elif reply is not None:
                self._take(reply)
        incoming.start = start
        if queue.size_bytes:
            self._flush()
        if not self._closed and not incoming.make_room(needed):
            self.throttle(_WAIT_FOR_MEMORY_MS)
            self._waits_for_memory = True

    # Answering

    def _take(self, reply: Bytes | Parts | Pending) -> None:
        if isinstance(reply, Pending):
            if self._pending is None:
                self._pending = deque()
            self._pending.append(reply)
            if reply.ready:
                # Deferred: this round's frames are still being served.
                self._leave_soon()
            else:
                self._awaited = self._awaited or not reply.overlapping
                reply.taken_by(self._given)
        elif self._pending:
            self._pending.append(Pending.settled(reply))
        else:
            self._push(reply)

    def _push(self, answer: Bytes | Parts) -> None:
        if not isinstance(answer, list):
            self._queue.push(answer)
            return
        try:
            self._queue.push_all(answer)
        except OSError:
            self.close()

    def _given(self, pending: Pending) -> None:
        if not pending.overlapping:
            self._awaited = False
        if pending.at_once:
            self._leave()
        else:
            # Deferred: sending or closing now could re-enter the code that gave the answer.
            self._leave_soon()

    def _leave_soon(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        """Sends the awaited answers that are complete, in order, and continues."""
        self._leaving = False
        pending = self._pending
        if self._closed or pending is None:
            return
        while pending and pending[0].ready:
            answer = pending.popleft().answer
            if isinstance(answer, Close):
                self._flush()
                self.close()
                return
            if answer is not None:
                self._push(answer)
        self.last_active = self._loop.time()
        self._flush()
        self._resume()

    def _flush(self, alone: bytearray | None = None) -> None:
        """Sends the queued answers. A single answer of a round, the usual case, is sent without queueing."""
        if self._closed or not (alone or self._queue.size_bytes):
            return
        try:
            sent = self._queue.flush(self._sock) if alone is None else self._queue.send_alone(self._sock, alone)
        except OSError:
            self.close()
            return
        self._traffic.bytes_out += sent
        if self._queue.size_bytes:
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sock, self._writable)
        elif self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock)

    def _writable(self) -> None:
        self.last_active = self._loop.time()
        self._flush()
        self._resume()

    def _resume(self) -> None:
        """Serves the buffered frames and reads on, once nothing blocks the connection."""
        if not self._may_serve():
            return
        incoming = self._incoming
        if incoming.buffer is not None and incoming.end - incoming.start >= 4:
            self._serve_frames()
        if not self._reading and self._may_serve():
            self._reading = True
            self._loop.add_reader(self._sock, self._readable)

    def throttle(self, delay_ms: int) -> None:
        """Mutes the client for a while; queued answers are still sent."""
        if self._closed:
            return
        if self._throttled is not None:
            self._throttled.cancel()
        self._throttled = self._loop.call_later(delay_ms / 1000, self._unthrottle)

    def _unthrottle(self) -> None:
        self._throttled = None
        self._waits_for_memory = False
        self._resume()

    # Ending

    def when_closed(self, key: Hashable, call: Callable[[], None]) -> None:
        """Calls back when the connection closes; a second callback of the same key replaces the first."""
        if self._closing is None:
            self._closing = {}
        self._closing[key] = call

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._reading:
            self._loop.remove_reader(self._sock)
        if self._writing:
            self._loop.remove_writer(self._sock)
        if self._throttled is not None:
            self._throttled.cancel()
        for pending in self._pending or ():
            pending.drop()
        self._incoming.give_back()
        self._queue.clear()
        self._sock.close()
        for call in (self._closing or {}).values():
            call()
        self._on_closed(self)
