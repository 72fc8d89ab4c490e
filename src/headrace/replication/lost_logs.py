"""Logs of this broker that were in a log directory which is missing now.

The disk may be back at the next start. If the broker created an empty log instead and led the partition with it,
consumers would find no records, and the followers would remove theirs. So the broker reports such a replica to the
controller as lost, and creates an empty log only

- to follow another leader, from which it fetches all records, or
- to lead after the controller knew of the loss and elected this broker nevertheless. That is an unclean election: a
  person asked for it, or the topic allows it.

While the directory is in `log.dirs` and offline, the broker creates no log at all, as in Kafka: a repaired directory
would have a second one. Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.cluster.core.image import NO_LEADER, PartitionInfo
from headrace.kernel.ids import TopicPartition


class LostLogs:
    def __init__(self, lost: Collection[TopicPartition] = (), reason: str = "", *, are_offline: bool = False) -> None:
        """`are_offline`: a directory that may have the logs is in `log.dirs`, but cannot be used."""
        self.reason = reason
        self._lost = dict.fromkeys(lost)
        self._are_offline = are_offline
        # Partitions that the controller left without a leader after the report.
        self._leaderless: set[TopicPartition] = set()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._lost

    def partitions(self) -> list[TopicPartition]:
        return list(self._lost)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was deleted or moved away, or has a log now."""
        self._lost.pop(partition, None)
        self._leaderless.discard(partition)

    def registered_again(self) -> None:
        """The controller elects this broker as if its logs were back, before it gets the next report."""
        self._leaderless.clear()

    def must_wait(self, partition: TopicPartition, info: PartitionInfo, broker_id: int) -> bool:
        """Whether the broker must not create an empty log for the partition."""
        if partition not in self._lost:
            return False
        if info.leader == NO_LEADER:
            self._leaderless.add(partition)
        if self._are_offline or info.leader == NO_LEADER:
            return True
        return info.leader == broker_id and partition not in self._leaderless
