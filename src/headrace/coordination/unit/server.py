"""Serves the embedded store to the other processes of a unit, over Unix sockets that these processes inherit.

A connection has one session at a time. The session ends when its connection closes, so the nodes of a killed process
disappear at once: its kernel closes the socket. A process that lives but does not answer (SIGSTOP, a machine without
memory) keeps its socket open. It loses its session after the timeout without a message, and gets a new one on the same
connection with its next HELLO.

The client counts its lease (`store`) from the moment it sent a message, and for two thirds of the timeout. The
server counts from the moment it read the message. So a lease always ends before the session. When the server itself did
not run for a while, it gives every session a new timeout, because their messages wait in the sockets.

Owned by the event loop of the supervisor. A request that was read is executed once or not at all: when the server dies
before it answered, the client gets ConnectionLost, as from ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Coroutine, Sequence
from typing import Final, cast

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import SessionExpired, StoreFailed, StoreFault, Watch
from headrace.coordination.unit.messages import (
    BadMessage,
    Kind,
    decode_number,
    decode_ops,
    decode_path,
    decode_paths,
    encode_data,
    encode_fault,
    encode_names,
    encode_node,
    encode_number,
    encode_path,
    frame,
    split,
)

logger = logging.getLogger(__name__)

_CHECKS_PER_TIMEOUT: Final = 6
_PAUSE_S: Final = 0.2
_LONGEST_TIMEOUT_MS: Final = 24 * 3600 * 1000


class StoreServer:
    """`connect` gives a process its end of a connection. `close` ends all sessions; the store stays open."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self._connections: set[_Connection] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def connect(self) -> socket.socket:
        """The other end of a new connection, to be inherited by a process. The caller closes its copy."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        own.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: _Connection(self), sock=own)
        return other

    def opened(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def run(self, task: asyncio.Task[None]) -> None:
        """Keeps a task until it is done: the end of a session must happen."""
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for connection in tuple(self._connections):
            connection.hang_up()
        while self._connections or self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
            await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self._store = server.store
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        # While requests are read: their answers go out together. A process loads its image with thousands of reads.
        self._answers: list[bytes] | None = None
        self._session_id = 0
        self._timeout_s = 0.0
        self._heard_at = 0.0
        self._checked_at = 0.0
        self._check: asyncio.TimerHandle | None = None
        self._watches: dict[tuple[str, bool], Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()  # those of `_tasks` that are not answered yet

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end_session()
        self._server.lost(self)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._heard_at = time.monotonic()
        self._answers = []
        try:
            for number, kind, body in split(self._buffer):
                self._received(number, kind, body)
        except BadMessage as wrong:
            logger.error("a process of this unit sent %s to the coordination store: its connection is closed", wrong)
            self.hang_up()
        answers, self._answers = self._answers, None
        if self._transport is not None and answers and not self._transport.is_closing():
            self._transport.write(b"".join(answers))

    def _send(self, number: int, kind: Kind, body: bytes = b"") -> None:
        data = frame(number, kind, body)
        if self._answers is not None:
            self._answers.append(data)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # Requests

    def _received(self, number: int, kind: Kind, body: bytes) -> None:
        """Bodies are read here, so that bytes that cannot be read close the connection."""
        match kind:
            case Kind.HELLO:
                timeout_ms = decode_number(body)
                if not 0 < timeout_ms <= _LONGEST_TIMEOUT_MS:
                    raise BadMessage(f"a timeout of {timeout_ms} ms")
                self._spawn(self._hello(number, timeout_ms / 1000))
            case Kind.MULTI:
                writing = self._spawn(self._multi(number, self._session_id, body))
                self._writes.add(writing)
                writing.add_done_callback(self._writes.discard)
            case Kind.GET | Kind.EXISTS | Kind.CHILDREN if self._writes:
                self._spawn(self._read_after(tuple(self._writes), number, kind, *decode_path(body)))
            case Kind.GET | Kind.EXISTS | Kind.CHILDREN:
                self._read(number, kind, *decode_path(body))
            case Kind.DATA if self._writes:
                self._spawn(self._data_after(tuple(self._writes), number, decode_paths(body)))
            case Kind.DATA:
                self._data(number, decode_paths(body))
            case Kind.BEAT:
                self._beat(number)
            case Kind.CLOSE:
                self._spawn(self._close(number))
            case _:
                raise BadMessage(f"a message of kind {kind.name}")

    def _spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _refuse(self, number: int, fault: StoreFault) -> None:
        self._send(number, Kind.FAULT, encode_fault(fault))

    def _has_session(self, number: int) -> bool:
        if self._session_id == 0:
            self._refuse(number, SessionExpired("the session with the coordination store of this unit has ended"))
        return self._session_id != 0

    def _beat(self, number: int) -> None:
        if not self._has_session(number):
            return
        if time.monotonic() >= self._store.lease_ends_at():
            self._refuse(number, StoreFailed("the coordination store of this unit has failed"))
        else:
            self._send(number, Kind.DONE)

    async def _hello(self, number: int, timeout_s: float) -> None:
        self._end_session()
        try:
            session_id = await self._store.open_session()
        except StoreFault as fault:
            self._refuse(number, fault)
            return
        if self._transport is None:  # the process died meanwhile
            await self._ended(session_id)
            return
        self._session_id, self._timeout_s = session_id, timeout_s
        self._heard_at = self._checked_at = time.monotonic()
        self._schedule_check()
        self._send(number, Kind.DONE, encode_number(session_id))

    async def _multi(self, number: int, session_id: int, body: bytes) -> None:
        if not self._has_session(number):
            return
        try:
            await self._store.multi_of_session(session_id, decode_ops(body))
        except BadMessage as wrong:
            self._refuse(number, StoreFault(str(wrong)))
        except StoreFault as fault:
            self._refuse(number, fault)
        else:
            self._send(number, Kind.DONE)

    async def _read_after(
        self, writes: tuple[asyncio.Task[None], ...], number: int, kind: Kind, path: str, watched: bool
    ) -> None:
        """A process sees its own earlier writes, as with ZooKeeper. Also one for whose answer it waits no longer:
        without that, it would find a node that its own deletion is about to remove."""
        await asyncio.wait(writes)
        self._read(number, kind, path, watched)

    def _read(self, number: int, kind: Kind, path: str, watched: bool) -> None:
        if not self._has_session(number):
            return
        watch = self._watch(path, kind is Kind.CHILDREN) if watched else None
        try:
            if kind is Kind.CHILDREN:
                body = encode_names(self._store.children_now(path, watch))
            elif kind is Kind.GET:
                body = encode_node(self._store.get_now(path, watch))
            else:
                body = encode_node(self._store.exists_now(path, watch))
        except StoreFault as fault:
            self._refuse(number, fault)
        else:
            self._send(number, Kind.DONE, body)

    async def _data_after(self, writes: tuple[asyncio.Task[None], ...], number: int, wanted: Sequence[str]) -> None:
        await asyncio.wait(writes)
        self._data(number, wanted)

    def _data(self, number: int, wanted: Sequence[str]) -> None:
        if self._has_session(number):
            self._send(number, Kind.DONE, encode_data(self._store.data_of_now(wanted)))

    def _watch(self, path: str, children: bool) -> Watch:
        """One function for each path, so that the store keeps it once however often the process reads."""
        known = self._watches.get((path, children))
        if known is not None:
            return known
        session_id = self._session_id

        def fired() -> None:
            self._watches.pop((path, children), None)
            if self._session_id == session_id:
                self._send(0, Kind.FIRED, encode_path(path, children))

        self._watches[path, children] = fired
        return fired

    async def _close(self, number: int) -> None:
        session_id, self._session_id = self._session_id, 0
        if session_id:
            await self._ended(session_id)
        self._send(number, Kind.DONE)

    # The end of a session

    def _schedule_check(self) -> None:
        if self._check is not None:
            self._check.cancel()
        loop = asyncio.get_running_loop()
        self._check = loop.call_later(self._timeout_s / _CHECKS_PER_TIMEOUT, self._check_timeout)

    def _check_timeout(self) -> None:
        self._check = None
        if self._session_id == 0:
            return
        now, pause = time.monotonic(), self._timeout_s / _CHECKS_PER_TIMEOUT
        if now - self._checked_at > 2 * pause:
            self._heard_at = now  # this process did not run; messages wait to be read
        self._checked_at = now
        if now - self._heard_at > self._timeout_s:
            logger.warning("a process of this unit has not answered for %.1f s: its session ends", now - self._heard_at)
            self._end_session()
        else:
            self._schedule_check()

    def _end_session(self) -> None:
        session_id, self._session_id = self._session_id, 0
        self._watches.clear()
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if session_id:
            self._server.run(asyncio.get_running_loop().create_task(self._ended(session_id)))

    async def _ended(self, session_id: int) -> None:
        """Until the nodes are gone, also on a full disk: with them the others would take the process for alive."""
        while True:
            try:
                await self._store.end_session(session_id)
                return
            except StoreFailed as fault:
                if time.monotonic() >= self._store.lease_ends_at():
                    return  # failed for good, or closed: the next opening drops the nodes
                logger.error("cannot end the session of a process that is gone: %s", fault.message)
                await asyncio.sleep(_PAUSE_S)
