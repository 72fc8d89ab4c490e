"""The coordination store of a cluster in one process: ZooKeeper's tree in memory.

Each broker has a session (`MemoryStore`) and its own thread. The tree is shared, so a lock guards it. Watches fire on
the event loop of the broker that set them. A killed broker's session ends at once, as with the companion process.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence

from headrace.coordination.core.tree import Tree
from headrace.coordination.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NoNode,
    Op,
    SessionEvent,
    Set,
    StoreFailed,
    Watch,
    data_by_node,
)


class MemoryTree:
    """The tree that all sessions share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tree = Tree()
        self._last_id = 0
        self._watches: dict[tuple[str, bool], list[tuple[MemoryStore, Watch]]] = {}

    def next_session(self) -> int:
        with self.lock:
            self._last_id += 1
            return self._last_id

    def watch(self, path: str, children: bool, store: MemoryStore, watch: Watch | None) -> None:
        if watch is not None:
            self._watches.setdefault((path, children), []).append((store, watch))

    def write(self, ops: Sequence[Op], session_id: int) -> None:
        with self.lock:
            self.tree.check(ops)
            self._last_id += 1
            touched = self.tree.commit(ops, self._last_id, session_id)
            fired = [pair for one in touched for pair in self._watches.pop((one.path, one.children), ())]
        for store, watch in fired:
            store.fire(watch)

    def end_session(self, session_id: int) -> None:
        with self.lock:
            mine = [path for path in self.tree.ephemerals() if self.tree.nodes[path].session_id == session_id]
        if mine:
            self.write([Delete(path) for path in mine], session_id)


class MemoryStore:
    """The session of one broker. Made on the event loop of that broker."""

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._loop = asyncio.get_running_loop()
        self._session_id = tree.next_session()
        self._closed = False

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout(self) -> float:
        return math.inf

    def lease_ends_at(self) -> float:
        return 0.0 if self._closed else math.inf

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        callback(SessionEvent.CONNECTED)

    def fire(self, watch: Watch) -> None:
        """Called from the thread of the broker that wrote."""
        if not self._closed:
            try:
                self._loop.call_soon_threadsafe(watch)
            except RuntimeError:
                self._closed = True  # its broker was killed

    def end(self) -> None:
        """Ends the session: its ephemeral nodes disappear. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._tree.end_session(self._session_id)

    async def close(self) -> None:
        self.end()

    async def make_chroot(self) -> None:
        """The tree belongs to this cluster alone."""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed("the coordination store in memory is closed")

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        self._check_open()
        with self._tree.lock:
            node = self._tree.tree.get(path)
            self._tree.watch(path, False, self, watch)
            return node

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        return await data_by_node(self, paths)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        self._check_open()
        with self._tree.lock:
            self._tree.watch(path, False, self, watch)
            return self._tree.tree.nodes.get(path)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._check_open()
        with self._tree.lock:
            if path not in self._tree.tree.nodes:
                raise NoNode(f"no node {path}")
            names = self._tree.tree.names(path)
            self._tree.watch(path, True, self, watch)
            return names

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self.multi([Set(path, data, version)])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> None:
        self._check_open()
        self._tree.write(ops, self._session_id)

    async def sync(self) -> None:
        """Reads see every finished write."""
