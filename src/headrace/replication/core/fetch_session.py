"""The follower's side of an incremental fetch session (KIP-227): what the leader already knows need not be said again.

    no session ──full request (id 0, epoch 0)──► leader gives an id ──► epoch 1, 2, 3 … each names only what changed
        ▲                                                                     │
        └───────────── any error of the session or of the connection ────────┘

A partition that is not named keeps its last position on the leader's side, so a follower with a thousand idle
partitions sends a few bytes per fetch, and spends no time on them either.
Pure: positions in, a request's session part out.
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
# After the largest epoch comes 1: 0 would ask for a new session.
_LAST_EPOCH: Final = 0x7FFFFFFF


class FetchPosition(NamedTuple):
    """From where a follower fetches one partition, and by what it lets the leader check that their logs agree."""

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
    """`wanted` is where each partition is fetched from; a request costs what changed since the last one."""

    id: int = NO_SESSION
    wanted: dict[PartitionKey, FetchPosition] = field(default_factory=dict)
    _next_epoch: int = FIRST_EPOCH
    _told: set[PartitionKey] = field(default_factory=set)  # what the leader's session holds
    # Dictionaries for their order: a run of the simulator must not depend on how ids hash.
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
            if key in self._told:
                self._forgotten[key] = None

    def request(self) -> SessionRequest:
        if self.id == NO_SESSION:
            named = dict(self.wanted)
            self._told = set(named)
        else:
            named = {key: self.wanted[key] for key in self._changed}
            self._told.difference_update(self._forgotten)
            self._told.update(named)
        forgotten = tuple(self._forgotten)
        self._changed, self._forgotten = {}, {}
        return SessionRequest(self.id, self._next_epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader took the request; it may also have declined to keep a session (id 0)."""
        if session_id == NO_SESSION:
            self.reset()
            return
        if session_id != self.id:
            self.id = session_id
            self._next_epoch = 1
        else:
            self._next_epoch = 1 if self._next_epoch == _LAST_EPOCH else self._next_epoch + 1

    def reset(self) -> None:
        """The next request names everything again."""
        self.id = NO_SESSION
        self._next_epoch = FIRST_EPOCH
        self._told = set()
        self._changed, self._forgotten = {}, {}
