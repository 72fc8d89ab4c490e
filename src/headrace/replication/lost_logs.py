"""Logs of this broker that are gone or lack records, as its start found them.

A missing log may be back at the next start. If the broker created an empty log instead and led the partition with it,
consumers would find no records, and the followers would remove theirs. So the broker registers such a replica as
missing, and creates an empty log only

- to follow another leader, from which it fetches all records, or
- to lead if the controller knows of the loss and elected this broker nevertheless: a person asked for it.

While a directory is in `log.dirs` and offline, the broker creates no log in place of a missing one, as in Kafka: a
repaired directory would have a second one. Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headrace.cluster.core.image import NO_LEADER, PartitionInfo
from headrace.cluster.core.losses import ReplicaKey, ReplicaLosses


class LostLogs:
    def __init__(
        self,
        missing: Mapping[ReplicaKey, str] | None = None,
        incomplete: Collection[ReplicaKey] = (),
        *,
        are_offline: bool = False,
    ) -> None:
        """`missing`: each with the reason. `are_offline`: a directory that may have the missing logs is in `log.dirs`,
        but cannot be used."""
        self._missing = dict(missing or {})
        self._incomplete = set(incomplete)
        self._are_offline = are_offline
        self._when_fewer: Callable[[], None] = lambda: None

    def when_fewer(self, callback: Callable[[], None]) -> None:
        """Calls back after a replica has its log or its records again, or does not exist any more."""
        self._when_fewer = callback

    def losses(self) -> ReplicaLosses:
        return ReplicaLosses(frozenset(self._missing), frozenset(self._incomplete), self._are_offline)

    def why_missing(self, replica: ReplicaKey) -> str | None:
        return self._missing.get(replica)

    def must_wait(self, replica: ReplicaKey, info: PartitionInfo, broker_id: int, *, is_known: bool) -> bool:
        """Whether the broker must not create an empty log. `is_known`: the controller knows that the log is missing."""
        if replica not in self._missing:
            return False
        if self._are_offline or info.leader == NO_LEADER:
            return True
        return info.leader == broker_id and not is_known

    def has_log(self, replica: ReplicaKey) -> None:
        """A missing log was created again, and is incomplete until the replica is in sync."""
        if self._missing.pop(replica, None) is not None:
            self._incomplete.add(replica)
            self._when_fewer()

    def has_all_records(self, replica: ReplicaKey) -> bool:
        """The replica is in sync. Returns whether it was not complete."""
        if replica not in self._incomplete:
            return False
        self._incomplete.discard(replica)
        self._when_fewer()
        return True

    def forget(self, replica: ReplicaKey) -> None:
        """The partition was deleted, or has no replica here any more. Its log may have been on a disk that failed since
        the start, so this always calls back: after the log is gone."""
        self._missing.pop(replica, None)
        self._incomplete.discard(replica)
        self._when_fewer()
