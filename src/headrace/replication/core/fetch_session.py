"""The follower's side of an incremental fetch session (KIP-227): a request names only partitions that changed.

    no session ──full request (id 0, epoch 0)──► leader gives an id ──► epoch 1, 2, 3 … each names only what changed
        ▲                                                                     │
        └───────────── any error of the session or of the connection ────────┘

The leader keeps the last position of a partition that a request does not name. A follower with a thousand idle
partitions sends a few bytes per fetch and spends no time on them.
Pure: takes positions, returns the session part of a request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple

from headrace.kernel.dataclass import dataclass

PartitionKey = tuple[uuid.UUID, int]
NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
# After the largest epoch comes 1; 0 would request a new session.
_LAST_EPOCH: Final = 0x7FFFFFFF


class FetchPosition(NamedTuple):
    """The fetch offset of one partition, and the last fetched epoch with which the leader detects divergence."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    session_id: int
    epoch: int
    named: Mapping[PartitionKey, FetchPosition]
    forgotten: tuple[PartitionKey, ...]


@dataclass
class FetchSession:
    """`wanted` has the position of each partition. The cost of a request depends only on what changed."""

    id: int = NO_SESSION
    wanted: dict[PartitionKey, FetchPosition] = field(default_factory=dict)
    _next_epoch: int = FIRST_EPOCH
    _in_leader_session: set[PartitionKey] = field(default_factory=set)  # what the leader's session holds
    # Dictionaries keep their order: a run of the simulator must not depend on hashes.
    _changed: dict[PartitionKey, None] = field(default_factory=dict)
    _forgotten: dict[PartitionKey, None] = field(default_factory=dict)

    def want(self, key: PartitionKey, position: FetchPosition) -> None:
        if self.wanted.get(key) != position:
            self.wanted[key] = position
            self._changed[key] = None
        self._forgotten.pop(key, None)

    def drop(self, key: PartitionKey) -> None:
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self._in_leader_session:
                self._forgotten[key] = None

    def request(self) -> SessionRequest:
        if self.id == NO_SESSION:
            named = dict(self.wanted)
            self._in_leader_session = set(named)
        else:
            named = {key: self.wanted[key] for key in self._changed}
            self._in_leader_session.difference_update(self._forgotten)
            self._in_leader_session.update(named)
        forgotten = tuple(self._forgotten)
        self._changed, self._forgotten = {}, {}
        return SessionRequest(self.id, self._next_epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader accepted the request. With id 0 it has not created a session."""
        if session_id == NO_SESSION:
            self.reset()
            return
        if session_id != self.id:
            self.id = session_id
            self._next_epoch = 1
        else:
            self._next_epoch = 1 if self._next_epoch == _LAST_EPOCH else self._next_epoch + 1

    def reset(self) -> None:
        """Makes the next request name every partition."""
        self.id = NO_SESSION
        self._next_epoch = FIRST_EPOCH
        self._in_leader_session = set()
        self._changed, self._forgotten = {}, {}
