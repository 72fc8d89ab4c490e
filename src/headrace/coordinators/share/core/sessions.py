"""Share sessions: the partitions that a member reads, kept from one ShareFetch to the next.

A session begins with epoch 0 and all partitions; later requests carry the next epoch and only what changes; epoch -1
ends it. One per member and group.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

TopicIdPartition = tuple[uuid.UUID, int]


@dataclass(slots=True)
class Session:
    epoch: int
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    # Partitions whose next answer is sent even if it is empty: just added, or in error the last time.
    untold: set[TopicIdPartition] = field(default_factory=set)

    def add(self, partition: TopicIdPartition) -> None:
        if partition not in self.partitions:
            self.partitions[partition] = None
            self.untold.add(partition)

    def forget(self, partition: TopicIdPartition) -> None:
        self.partitions.pop(partition, None)
        self.untold.discard(partition)

    def in_turn(self, epoch: int) -> list[TopicIdPartition]:
        """Each fetch begins with another partition, so that a full answer starves none."""
        found = list(self.partitions)
        at = max(epoch, 0) % len(found) if found else 0
        return found[at:] + found[:at]

    def told(self, partition: TopicIdPartition, *, has_records: bool, is_error: bool) -> bool:
        """Whether the answer for this partition is sent. A partition with records moves behind the others."""
        must = has_records or is_error or partition in self.untold
        if is_error:
            self.untold.add(partition)
        else:
            self.untold.discard(partition)
        if has_records and partition in self.partitions:
            self.partitions[partition] = self.partitions.pop(partition)
        return must


class Sessions:
    """Bounded. No session is evicted: it ends with its connection."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> Session | None:
        return self._sessions.get((group_id, member_id))

    def begin(self, group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> Session:
        """Raises SHARE_SESSION_LIMIT_REACHED; an old session of the same member ends even then."""
        self._sessions.pop((group_id, member_id), None)
        if len(self._sessions) >= self._limit:
            raise Refused(
                ErrorCode.share_session_limit_reached,
                f"{self._limit} share sessions are open: group.share.max.share.sessions={self._limit}",
            )
        fresh = Session(1, dict.fromkeys(partitions))
        self._sessions[group_id, member_id] = fresh
        return fresh

    def advance(self, group_id: str, member_id: str, epoch: int) -> Session:
        """Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Refused(ErrorCode.share_session_not_found, f"member {member_id} has no share session here")
        if epoch != session.epoch:
            raise Refused(ErrorCode.invalid_share_session_epoch, f"epoch {epoch}: {session.epoch} is expected")
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return session

    def end(self, group_id: str, member_id: str) -> Session:
        session = self._sessions.pop((group_id, member_id), None)
        if session is None:
            raise Refused(ErrorCode.share_session_not_found, f"member {member_id} has no share session here")
        return session

    def has_any_of(self, group_id: str) -> bool:
        return any(group == group_id for group, _ in self._sessions)
