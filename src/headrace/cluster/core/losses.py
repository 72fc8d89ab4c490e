"""Replicas that lack records which their broker once stored.

A disk is not mounted, files were removed, or a directory is an old copy. If such a replica led, consumers would
miss records, and the other replicas would remove theirs. So a broker registers its losses, and an election knows of
them before it chooses (`controller/core/partition_states.py`). A loss ends when the replica has fetched the records
again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from uuid import UUID

from headrace.kernel.dataclass import dataclass

# Topic id and index: a topic that is created again under an old name has lost nothing.
ReplicaKey = tuple[UUID, int]


class Loss(IntEnum):
    """The worse the loss, the higher the number."""

    NONE = 0
    INCOMPLETE = 1  # the log ends before records that were on the disk
    MISSING = 2  # there is no log
    OFFLINE = 3  # there is no log, and a directory that may have it is offline: the broker creates no other


@dataclass(frozen=True, slots=True)
class ReplicaLosses:
    """The losses of one broker. `is_offline`: one of its log directories is offline."""

    missing: frozenset[ReplicaKey] = frozenset()
    incomplete: frozenset[ReplicaKey] = frozenset()
    is_offline: bool = False

    def __bool__(self) -> bool:
        return bool(self.missing or self.incomplete)

    def of(self, topic_id: UUID, index: int) -> Loss:
        key = (topic_id, index)
        if key in self.missing:
            return Loss.OFFLINE if self.is_offline else Loss.MISSING
        return Loss.INCOMPLETE if key in self.incomplete else Loss.NONE


NO_LOSSES: Final = ReplicaLosses()
