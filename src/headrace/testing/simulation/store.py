"""ZooKeeper as its clients see it: ordered writes, stale reads, sessions that expire, connections that break.

The tree and its rules are the real ones (`coordination.core.tree`). Around it:

- a write may be lost before it is applied, or its answer may be lost after that (both raise `ConnectionLost`);
- a read may come from a server that lags, but never shows an older state than this session has seen;
- requests of one session are applied in the order they were sent; answers take any time;
- a watch fires once, late;
- a session ends when the store got no heartbeat for the time-out. The client learns it when it reconnects.

`lease_ends_at` counts from when the last answered heartbeat was *sent*, so it ends no later than the session.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.coordination.core.tree import Tree
from headrace.coordination.store import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Delete,
    Node,
    NoNode,
    Op,
    SessionEvent,
    SessionExpired,
    Set,
    StoreFailed,
    Watch,
    data_by_node,
)
from headrace.testing.simulation.network import SimulatedNetwork
from headrace.testing.simulation.virtual_loop import context_of

T = TypeVar("T")

STORE_NODE: Final = -100  # node number of the store in a link
_SNAPSHOTS_KEPT: Final = 30


@dataclass(slots=True)
class _Session:
    id: int
    timeout_s: float
    heard_at: float


class SimulatedZooKeeper:
    def __init__(self, chance: random.Random, network: SimulatedNetwork) -> None:
        self.chance = chance
        self.network = network
        self.is_down = False
        self.tree = Tree()
        self.last_id = 0
        self.snapshots: deque[tuple[int, Tree]] = deque(maxlen=_SNAPSHOTS_KEPT)
        self._sessions: dict[int, _Session] = {}
        self._watches: dict[tuple[str, bool], list[tuple[SimulatedStore, Watch]]] = {}
        self._next_session = 1
        self.before_write: Callable[[Tree, Sequence[Op], int], None] = lambda tree, ops, transaction_id: None
        self._remember()

    def hears(self, broker: int) -> bool:
        return not self.is_down and (broker, STORE_NODE) not in self.network.cut

    def reaches(self, broker: int) -> bool:
        """In both directions: a broker that gets no answers is not connected."""
        return self.hears(broker) and (STORE_NODE, broker) not in self.network.cut

    def restart(self) -> None:
        """Restarts after an outage. Sessions are durable; their time-outs start again."""
        self.is_down = False
        now = asyncio.get_running_loop().time()
        for session in self._sessions.values():
            session.heard_at = now

    def open_session(self, timeout_s: float) -> int:
        session = _Session(self._next_session, timeout_s, asyncio.get_running_loop().time())
        self._next_session += 1
        self._sessions[session.id] = session
        loop = asyncio.get_running_loop()
        loop.call_later(timeout_s, self._expire_if_silent, session.id, context=context_of(None))
        return session.id

    def is_alive(self, session_id: int) -> bool:
        return session_id in self._sessions

    def heard(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.heard_at = asyncio.get_running_loop().time()

    def _expire_if_silent(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        loop = asyncio.get_running_loop()
        left = session.heard_at + session.timeout_s - loop.time()
        if self.is_down:
            left = max(left, 0.1)
        if left > 0:
            loop.call_later(left + 0.001, self._expire_if_silent, session_id)
        else:
            self.end_session(session_id)

    def end_session(self, session_id: int) -> None:
        if self._sessions.pop(session_id, None) is None:
            return
        gone = [Delete(path) for path in self.tree.ephemerals() if self.tree.nodes[path].session_id == session_id]
        if gone:
            self.write(gone, session_id)

    def write(self, ops: Sequence[Op], session_id: int) -> int:
        self.tree.check(ops)
        self.before_write(self.tree, ops, self.last_id + 1)
        self.last_id += 1
        touched = self.tree.commit(ops, self.last_id, session_id)
        self._remember()
        for one in touched:
            for store, watch in self._watches.pop((one.path, one.children), ()):
                self._fire(store, watch)
        return self.last_id

    def watch(self, path: str, children: bool, store: SimulatedStore, watch: Watch) -> None:
        self._watches.setdefault((path, children), []).append((store, watch))

    def _fire(self, store: SimulatedStore, watch: Watch) -> None:
        delay = self.chance.uniform(*self.network.faults.watch_delay_s)
        asyncio.get_running_loop().call_later(delay, store.fire, watch, context=context_of(store.broker))

    def fire_soon(self, store: SimulatedStore, watch: Watch) -> None:
        self._fire(store, watch)

    def _remember(self) -> None:
        copy = Tree()
        copy.nodes = dict(self.tree.nodes)
        copy.children = {path: set(names) for path, names in self.tree.children.items()}
        self.snapshots.append((self.last_id, copy))


class SimulatedStore:
    """Client of the simulated ZooKeeper: the `Store` of one broker process."""

    def __init__(self, server: SimulatedZooKeeper, broker: int, session_timeout_s: float) -> None:
        self._server = server
        self.broker = broker
        self.session_timeout = session_timeout_s
        self.session_id = server.open_session(session_timeout_s)
        self._closed = False
        self._connected = True
        self._seen = 0
        self._last_applied_at = 0.0
        self._callbacks: list[Callable[[SessionEvent], None]] = []
        loop = asyncio.get_running_loop()
        self._lease_ends_at = loop.time() + session_timeout_s
        self._beat: asyncio.TimerHandle = loop.call_later(session_timeout_s / 3, self._heartbeat)

    # Session

    def lease_ends_at(self) -> float:
        return self._lease_ends_at

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        self._callbacks.append(callback)

    def _heartbeat(self) -> None:
        """Heartbeat, answered at once if the link is up. It also detects that the session has expired."""
        loop = asyncio.get_running_loop()
        pause = self.session_timeout / 3
        if self._server.reaches(self.broker):
            if not self._server.is_alive(self.session_id):
                self._renew()
            else:
                self._server.heard(self.session_id)
                self._lease_ends_at = loop.time() + self.session_timeout
                if not self._connected:
                    self._connected = True
                    self._tell(SessionEvent.CONNECTED)
        else:
            if self._server.hears(self.broker):
                self._server.heard(self.session_id)
            if self._connected:
                self._connected = False
                self._tell(SessionEvent.SUSPENDED)
            pause = self._server.chance.uniform(0.1, self.session_timeout / 3)
        self._beat = loop.call_later(pause, self._heartbeat)

    def _renew(self) -> None:
        self.session_id = 0
        self._tell(SessionEvent.EXPIRED)
        self.session_id = self._server.open_session(self.session_timeout)
        self._lease_ends_at = asyncio.get_running_loop().time() + self.session_timeout
        self._connected = True
        self._tell(SessionEvent.CONNECTED)

    def _tell(self, event: SessionEvent) -> None:
        for callback in tuple(self._callbacks):
            callback(event)

    def fire(self, watch: Watch) -> None:
        if not self._closed:
            watch()

    def abandon(self) -> None:
        """The process died: it sends no more heartbeats for this session."""
        self._closed = True
        self._beat.cancel()

    async def close(self) -> None:
        if not self._closed:
            self.abandon()
            if self._server.reaches(self.broker):
                self._server.end_session(self.session_id)

    # Requests

    async def _call(self, perform: Callable[[], T]) -> T:
        if self._closed:
            raise StoreFailed("the store is closed")
        server, faults, chance = self._server, self._server.network.faults, self._server.chance
        loop = asyncio.get_running_loop()
        session = self.session_id
        apply_at = max(loop.time() + chance.uniform(*faults.store_delay_s), self._last_applied_at)
        self._last_applied_at = apply_at
        lost_before, lost_after = chance.random() < faults.store_lost_before, chance.random() < faults.store_lost_after
        back = chance.uniform(*faults.store_delay_s)
        await asyncio.sleep(apply_at - loop.time())
        if not server.hears(self.broker) or lost_before:
            await asyncio.sleep(back)
            raise ConnectionLost("the connection broke")
        if session == 0 or session != self.session_id or not server.is_alive(session):
            raise SessionExpired("the session is over")
        server.heard(session)
        try:
            result = perform()
        finally:
            await asyncio.sleep(back)
        if not server.reaches(self.broker) or lost_after:
            raise ConnectionLost("the connection broke; the outcome is unknown")
        return result

    def _read_tree(self) -> Tree:
        server = self._server
        if server.chance.random() < server.network.faults.store_stale_read:
            candidates = [(at, tree) for at, tree in server.snapshots if at >= self._seen]
            at, tree = server.chance.choice(candidates)
            self._seen = at
            return tree
        self._seen = server.last_id
        return server.tree

    def _watch(self, path: str, children: bool, read_from: Tree, watch: Watch | None) -> None:
        if watch is None:
            return
        now = self._server.tree
        if children:
            moved = read_from.children.get(path) != now.children.get(path)
        else:
            moved = read_from.nodes.get(path) != now.nodes.get(path)
        if moved:
            self._server.fire_soon(self, watch)
        else:
            self._server.watch(path, children, self, watch)

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        return await data_by_node(self, paths)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        def perform() -> Node | None:
            tree = self._read_tree()
            self._watch(path, False, tree, watch)
            return tree.nodes.get(path)

        return await self._call(perform)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        def perform() -> Node:
            tree = self._read_tree()
            node = tree.get(path)
            self._watch(path, False, tree, watch)
            return node

        return await self._call(perform)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def perform() -> list[str]:
            tree = self._read_tree()
            if path not in tree.nodes:
                raise NoNode(f"no node {path}")
            self._watch(path, True, tree, watch)
            return tree.names(path)

        return await self._call(perform)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self.multi([Set(path, data, version)])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> None:
        def perform() -> None:
            self._seen = self._server.write(ops, self.session_id)

        await self._call(perform)

    async def sync(self) -> None:
        def perform() -> None:
            self._seen = self._server.last_id

        await self._call(perform)
