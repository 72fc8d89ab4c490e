"""The store of a process of a unit: a session with the embedded store of the supervisor, over a Unix socket.

The session ends with the socket. The server also ends it if this process has been silent for the session timeout. The
client then opens a new one on the same connection, as it would with ZooKeeper. When the server is gone, the session is
over at once, and every later operation fails: the supervisor has died, and this process stops.

The lease is as for ZooKeeper (docs/reference/coordination.md): an answer proves that the server read the request after
this process sent it, so the session lives at least until that moment plus the timeout. The lease is two thirds of it. A
heartbeat renews it while there are no other requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, cast

from headrace.coordination.store import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Delete,
    Node,
    Op,
    SessionEvent,
    SessionExpired,
    Set,
    StoreFailed,
    StoreFault,
    Watch,
)
from headrace.coordination.unit.messages import (
    BadMessage,
    Kind,
    decode_data,
    decode_fault,
    decode_names,
    decode_node,
    decode_number,
    decode_path,
    encode_names,
    encode_number,
    encode_ops,
    encode_path,
    frame,
    split,
)
from headrace.coordination.waiting import until
from headrace.kernel.dataclass import dataclass

logger = logging.getLogger(__name__)

LEASE_SHARE: Final = 2 / 3
_HEARTBEATS_PER_SESSION: Final = 6
_PAUSE_S: Final = 0.1
_CLOSE_WITHIN_S: Final = 2.0


@dataclass(slots=True)
class _Request:
    done: asyncio.Future[bytes]
    session_id: int
    sent_at: float
    watching: tuple[str, bool] | None
    watch: Watch | None


class SocketStore:
    """Made by `open_socket_store`. Owned by the event loop of the broker."""

    def __init__(self, session_timeout: float) -> None:
        self._timeout = session_timeout
        self._connection: _Connection | None = None
        self._numbers = 0
        self._requests: dict[int, _Request] = {}
        self._watches: dict[tuple[str, bool], dict[Watch, None]] = {}
        self._callbacks: list[Callable[[SessionEvent], None]] = []
        self._session_id = 0
        self._lease_ends_at = 0.0
        self._has_session = asyncio.Event()
        self._failure: StoreFault | None = None
        self._beating: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    # Session

    async def connect(self, end: socket.socket) -> None:
        """Raises StoreFault if the server opens no session."""
        end.setblocking(False)
        loop = asyncio.get_running_loop()
        _, self._connection = await loop.create_unix_connection(lambda: _Connection(self), sock=end)
        try:
            await self._hello()
        except BaseException:  # also when the start is cancelled: the connection must not stay
            await self.close()
            raise
        self._beating = asyncio.create_task(self._beat(), name="heartbeat of the unit")

    async def make_chroot(self) -> None:
        """The tree belongs to this unit alone."""

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout(self) -> float:
        return self._timeout

    def lease_ends_at(self) -> float:
        return self._lease_ends_at

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        self._callbacks.append(callback)
        if self._session_id:
            callback(SessionEvent.CONNECTED)

    async def close(self) -> None:
        """Ends the session at once, and with it our ephemeral nodes."""
        for task in (self._beating, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._failure is None and self._connection is not None:
            try:
                async with asyncio.timeout(_CLOSE_WITHIN_S):
                    await self._ask(Kind.CLOSE)
            except (StoreFault, TimeoutError) as fault:
                logger.info("the coordination store did not confirm the end of the session: %s", fault)
        self._failure = StoreFailed("the connection to the coordination store is closed")
        self._session_id, self._lease_ends_at = 0, 0.0
        if self._connection is not None:
            self._connection.hang_up()

    async def _hello(self) -> None:
        sent_at = time.monotonic()
        session_id = decode_number(await self._ask(Kind.HELLO, encode_number(int(self._timeout * 1000))))
        self._session_id = session_id
        self._lease_ends_at = sent_at + LEASE_SHARE * self._timeout
        self._has_session.set()
        self._notify(SessionEvent.CONNECTED)

    async def _beat(self) -> None:
        while self._failure is None:
            try:
                await self._call(Kind.BEAT)
            except StoreFault as fault:
                logger.debug("heartbeat: %s", fault.message)
            await asyncio.sleep(self._timeout / _HEARTBEATS_PER_SESSION)

    async def _renew(self) -> None:
        """A new session, after the server has ended the former one."""
        while self._failure is None and self._session_id == 0:
            try:
                await self._hello()
            except StoreFault as fault:
                logger.warning("no new session with the coordination store: %s", fault.message)
                await asyncio.sleep(_PAUSE_S)

    def _expired(self) -> None:
        if not self._session_id:
            return
        logger.warning("the session with the coordination store of this unit has ended")
        self._session_id, self._lease_ends_at = 0, 0.0
        self._has_session.clear()
        self._notify(SessionEvent.EXPIRED)
        # What they watched may have changed unseen.
        watches, self._watches = self._watches, {}
        loop = asyncio.get_running_loop()
        for watching in watches.values():
            for watch in watching:
                loop.call_soon(watch)
        if self._failure is None and (self._renewing is None or self._renewing.done()):
            self._renewing = loop.create_task(self._renew(), name="new session with the unit's store")

    def _notify(self, event: SessionEvent) -> None:
        for callback in tuple(self._callbacks):
            callback(event)

    # Requests

    async def _call(
        self, kind: Kind, body: bytes = b"", watching: tuple[str, bool] | None = None, watch: Watch | None = None
    ) -> bytes:
        """Asks within the current session. Raises StoreFault."""
        if not self._has_session.is_set() and self._failure is None:
            await until(self._has_session, self._timeout)
            if not self._has_session.is_set() and self._failure is None:
                raise ConnectionLost("no session with the coordination store of this unit")
        return await self._ask(kind, body, watching, watch)

    async def _ask(
        self, kind: Kind, body: bytes = b"", watching: tuple[str, bool] | None = None, watch: Watch | None = None
    ) -> bytes:
        if self._failure is not None:
            raise self._failure
        assert self._connection is not None, "connected"
        self._numbers = number = self._numbers + 1
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._requests[number] = _Request(done, self._session_id, time.monotonic(), watching, watch)
        self._connection.send(frame(number, kind, body))
        try:
            async with asyncio.timeout(self._timeout):
                return await done
        except TimeoutError:
            raise ConnectionLost(f"the coordination store gave no answer within {self._timeout:g} s") from None
        finally:
            self._requests.pop(number, None)

    def received(self, number: int, kind: Kind, body: bytes) -> None:
        """A message of the server, in the order in which it was sent."""
        if kind is Kind.FIRED:
            for watch in self._watches.pop(decode_path(body), ()):
                watch()
            return
        request = self._requests.get(number)
        if request is None:
            return  # the caller did not wait for the answer
        fault = decode_fault(body) if kind is Kind.FAULT else None
        of_this_session = request.session_id == self._session_id != 0
        if isinstance(fault, SessionExpired):
            if of_this_session:
                self._expired()
        elif of_this_session and not isinstance(fault, StoreFailed):
            self._lease_ends_at = max(self._lease_ends_at, request.sent_at + LEASE_SHARE * self._timeout)
        if request.done.done():
            return
        if fault is not None:
            request.done.set_exception(fault)
            return
        if request.watch is not None and request.watching is not None and of_this_session:
            # Before any later message is read, so that no change is missed.
            self._watches.setdefault(request.watching, {})[request.watch] = None
        request.done.set_result(body)

    def lost(self, why: str) -> None:
        """The server is gone: the outcome of what it has not answered is unknown."""
        if self._failure is None:
            self._failure = StoreFailed(f"the coordination store of this unit is gone ({why})")
        self._has_session.set()  # wakes the calls that wait for a session; they find the failure
        for request in self._requests.values():
            if not request.done.done():
                request.done.set_exception(ConnectionLost("the coordination store of this unit is gone"))
        self._expired()

    # Operations

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        node = decode_node(await self._call(Kind.GET, encode_path(path, watch is not None), (path, False), watch))
        assert node is not None, "a missing node is a fault"
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        return decode_node(await self._call(Kind.EXISTS, encode_path(path, watch is not None), (path, False), watch))

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        found = decode_data(await self._call(Kind.DATA, encode_names(paths)))
        assert len(found) == len(paths), "one for each path"
        return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        body = await self._call(Kind.CHILDREN, encode_path(path, watch is not None), (path, True), watch)
        return decode_names(body)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self.multi([Set(path, data, version)])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> None:
        await self._call(Kind.MULTI, encode_ops(ops))

    async def sync(self) -> None:
        """The store has one copy: every read sees every finished write."""
        await self._call(Kind.BEAT)


class _Connection(asyncio.Protocol):
    def __init__(self, store: SocketStore) -> None:
        self._store = store
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._store.lost("its connection ended" if exc is None else str(exc))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            for number, kind, body in split(self._buffer):
                self._store.received(number, kind, body)
        except BadMessage as wrong:
            logger.error("the coordination store of this unit sent %s", wrong)
            self.hang_up()

    def send(self, data: bytes) -> None:
        """Requests of one turn of the event loop go out together."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(data)

    def _flush(self) -> None:
        data, self._waiting = b"".join(self._waiting), []
        if self._transport is not None:
            self._transport.write(data)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def open_socket_store(end: socket.socket, session_timeout: float) -> SocketStore:
    """`end`: from `StoreServer.connect`. Raises StoreFault."""
    store = SocketStore(session_timeout)
    await store.connect(end)
    return store
