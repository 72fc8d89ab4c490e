"""The follower's side of an incremental fetch session (KIP-227): what the leader already knows need not be said again.

    no session ──full request (id 0, epoch 0)──► leader gives an id ──► epoch 1, 2, 3 … each names only what changed
        ▲                                                                     │
        └───────────── any error of the session or of the connection ────────┘

A partition that is not named keeps its last position on the leader's side, so a follower with a thousand idle
partitions sends a few bytes per fetch. Pure: positions in, a request's session part out.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
    id: int = NO_SESSION
    _next_epoch: int = FIRST_EPOCH
    _known: dict[PartitionKey, FetchPosition] = field(default_factory=dict)

    def request(self, wanted: Mapping[PartitionKey, FetchPosition]) -> SessionRequest:
        if self.id == NO_SESSION:
            self._known = dict(wanted)
            return SessionRequest(NO_SESSION, FIRST_EPOCH, wanted, ())
        named = {key: position for key, position in wanted.items() if self._known.get(key) != position}
        forgotten = tuple(key for key in self._known if key not in wanted)
        for key in forgotten:
            del self._known[key]
        self._known.update(named)
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
        self.id = NO_SESSION
        self._next_epoch = FIRST_EPOCH
        self._known = {}
