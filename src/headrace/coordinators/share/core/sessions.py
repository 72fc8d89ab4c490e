"""Share sessions: which partitions a member reads, remembered from one ShareFetch to the next.

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
    used_at_ms: int = 0

    def rotated(self) -> list[TopicIdPartition]:
        """In turns: the partition that was first goes last, so that none is starved by a full answer."""
        found = list(self.partitions)
        if found:
            self.partitions[found[0]] = self.partitions.pop(found[0])
        return found


class Sessions:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> Session | None:
        return self._sessions.get((group_id, member_id))

    def begin(
        self, group_id: str, member_id: str, partitions: Iterable[TopicIdPartition], now_ms: int, idle_ms: int = 60_000
    ) -> Session:
        """Raises SHARE_SESSION_LIMIT_REACHED."""
        if (group_id, member_id) not in self._sessions and len(self._sessions) >= self._limit:
            idle = [key for key, session in self._sessions.items() if now_ms - session.used_at_ms > idle_ms]
            if not idle:
                raise Refused(ErrorCode.share_session_limit_reached, f"{self._limit} share sessions are open")
            del self._sessions[idle[0]]
        fresh = Session(1, dict.fromkeys(partitions), now_ms)
        self._sessions[group_id, member_id] = fresh
        return fresh

    def advance(self, group_id: str, member_id: str, epoch: int, now_ms: int) -> Session:
        """Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Refused(ErrorCode.share_session_not_found, f"member {member_id} has no share session here")
        if epoch != session.epoch:
            raise Refused(ErrorCode.invalid_share_session_epoch, f"epoch {epoch}: {session.epoch} is expected")
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.used_at_ms = now_ms
        return session

    def end(self, group_id: str, member_id: str) -> Session:
        session = self._sessions.pop((group_id, member_id), None)
        if session is None:
            raise Refused(ErrorCode.share_session_not_found, f"member {member_id} has no share session here")
        return session

    def reads(self, group_id: str, partition: TopicIdPartition) -> bool:
        return any(group == group_id and partition in s.partitions for (group, _), s in self._sessions.items())
