"""The store port: a tree of small nodes with versions, atomic multi, ephemeral nodes and one-shot watches.

The semantics are ZooKeeper's; one contract test checks all three implementations. Rules for callers:

- A watch is a hint, fired at most once: set it, read everything, compare. It may fire without a change, and after a
  lost connection it may be late, so a watcher also reads from time to time.
- `ConnectionLost` says nothing about the outcome: the operation may have happened. "Already exists" after it may be our
  own success: read again and compare.
- `SessionExpired`: every ephemeral node of this session is gone; the store makes a new session by itself.

Faults:

    StoreFault                 the store cannot be used right now
    ├── NoNode                 the node, or the parent of a node to create, does not exist
    ├── NodeExists             create: the node exists (perhaps from our own lost request)
    ├── BadVersion             set, delete, check: the node has another version
    ├── NotEmpty               delete: the node has children
    ├── ConnectionLost         outcome unknown
    ├── SessionExpired         the session and its ephemeral nodes are gone
    └── StoreFailed            closed, or its disk failed: every later operation fails
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault

ANY_VERSION: Final = -1


class StoreFault(Fault):
    default_code = ErrorCode.unknown_server_error


class NoNode(StoreFault):
    pass


class NodeExists(StoreFault):
    pass


class BadVersion(StoreFault):
    pass


class NotEmpty(StoreFault):
    pass


class ConnectionLost(StoreFault):
    default_code = ErrorCode.request_timed_out


class SessionExpired(StoreFault):
    default_code = ErrorCode.not_controller


class StoreFailed(StoreFault):
    default_code = ErrorCode.kafka_storage_error


def log_level(fault: Fault, otherwise: int) -> int:
    """For callers that retry. The store itself logs once when the connection is lost and restored."""
    return logging.DEBUG if isinstance(fault, ConnectionLost) else otherwise


@dataclass(frozen=True, slots=True)
class Node:
    """`created_id` is the id of the transaction that created it. Ids only grow, over all nodes and restarts."""

    data: bytes
    version: int
    created_id: int
    session_id: int = 0  # session that owns an ephemeral node; 0 for other nodes


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op = Create | Set | Delete | Check
Watch = Callable[[], None]


class SessionEvent(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class Store(Protocol):
    @property
    def session_id(self) -> int:
        """Owner mark of this session's ephemeral nodes; 0 while there is no session."""

    @property
    def session_timeout(self) -> float:
        """Seconds without a heartbeat after which the store ends our session; infinite for the embedded one."""

    def lease_ends_at(self) -> float:
        """`time.monotonic()` until which the session is certainly alive. After it a broker stops acknowledging and
        serving."""

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None: ...

    async def get(self, path: str, watch: Watch | None = None) -> Node: ...

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """Like `get`, but None when there is no node; the watch then fires when it is created."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]: ...

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        """The data of some hundred nodes, None for a node that does not exist. No snapshot: nodes may change between
        the reads."""

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None: ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, ops: Sequence[Op]) -> None:
        """All or nothing. Raises the fault of the first operation that is not possible."""

    async def sync(self) -> None:
        """Later reads see everything that was written before the call."""

    async def close(self) -> None: ...


class ClusterStore(Store, Protocol):
    """The store of a cluster of brokers."""

    async def make_chroot(self) -> None:
        """Creates the path below which the cluster keeps its nodes, if it is missing."""


async def ensure_path(store: Store, path: str, data: bytes = b"") -> None:
    """Creates `path` and its parents if they are missing; only the last gets `data`."""
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        at = "/" + "/".join(parts[:depth])
        if await store.exists(at) is None:
            try:
                await store.create(at, data if depth == len(parts) else b"")
            except NodeExists:
                pass  # another broker created it at the same time


class Reads(Protocol):
    async def exists(self, path: str) -> Node | None: ...


async def data_by_node(store: Reads, paths: Sequence[str]) -> list[bytes | None]:
    """`data_of` for a store that reads one node with a request: all requests at once."""
    nodes = await asyncio.gather(*(store.exists(path) for path in paths))
    return [None if node is None else node.data for node in nodes]
