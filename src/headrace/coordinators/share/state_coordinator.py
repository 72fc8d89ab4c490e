"""The share coordinator: keeps the state of share partitions in `__share_group_state`, for the leaders of their
partitions.

That topic is not compacted. The coordinator deletes the records before the oldest snapshot in use. Owned by the event
loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from headrace.cluster.core.delta import deleted_topics
from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, StateBatch
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.runtime import CoordinatorRuntime, LedPartitions, settled
from headrace.coordinators.share.core.share_state import ShareStateShard
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import Fault
from headrace.kernel.ids import SHARE_GROUP_STATE_TOPIC, uuid_to_text
from headrace.replication.partition import Partition

_log = logging.getLogger(__name__)


def coordinator_key(key: ShareKey) -> str:
    """The key that FindCoordinator takes; it also selects the partition of `__share_group_state`."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


class ShareStateCoordinator:
    def __init__(
        self,
        partitions: LedPartitions,
        broker_id: int,
        topic: InternalTopic,
        *,
        updates_per_snapshot: int = 500,
        prune_interval_ms: int = 300_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._partitions = partitions
        self._prune_seconds = prune_interval_ms / 1000
        self._pruning: asyncio.TimerHandle | None = None
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            topic,
            partitions,
            broker_id,
            lambda index: ShareStateShard(updates_per_snapshot),
            clock=clock,
        )

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        self.runtime.follow(new)
        if self._pruning is None:
            self._pruning = asyncio.get_running_loop().call_later(self._prune_seconds, self._prune)
        gone = set(deleted_topics(old, new).values())
        for _, hosted in self.runtime.active_shards() if gone else ():
            if any(key.topic_id in gone for key in hosted.shard.states):
                try:
                    written = hosted.submit(lambda shard, now_ms: shard.forget_topics(gone))
                except Fault as fault:
                    _log.warning("%s: share partitions of deleted topics stay for now: %s", hosted.name, fault.message)
                else:
                    if isinstance(written, asyncio.Future):
                        written.add_done_callback(lambda future: future.exception())

    def close(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
        self.runtime.close()

    def _prune(self) -> None:
        self._pruning = asyncio.get_running_loop().call_later(self._prune_seconds, self._prune)
        for index, hosted in list(self.runtime.active_shards()):
            partition = self._partitions.get(SHARE_GROUP_STATE_TOPIC, index)
            if partition is None:
                continue
            try:
                needed = hosted.read(partial(_first_needed_offset, partition.log_end_offset))
            except Fault:
                continue  # this broker has no lease, or has just stepped down
            # Only when the state is committed: if a new snapshot were lost, the next leader would need the old one.
            if isinstance(needed, asyncio.Future):
                needed.add_done_callback(partial(self._delete_when_committed, partition))
            else:
                self._delete_before(partition, needed)

    def _delete_when_committed(self, partition: Partition, needed: asyncio.Future[int]) -> None:
        if not needed.cancelled() and needed.exception() is None:
            self._delete_before(partition, needed.result())

    @staticmethod
    def _delete_before(partition: Partition, needed: int) -> None:
        if needed > partition.log_start_offset:
            try:
                partition.delete_records_before(needed)
            except Fault as fault:
                _log.warning("old records of %s-%d stay for now: %s", partition.topic, partition.index, fault.message)

    # What leaders and the group coordinator ask

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        await self.runtime.run(
            coordinator_key(key), lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, now_ms)
        )

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        snapshot: ShareSnapshot = await self.runtime.run(
            coordinator_key(key), lambda shard, now_ms: shard.read(key, leader_epoch, now_ms)
        )
        return snapshot

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        await self.runtime.run(
            coordinator_key(key),
            lambda shard, now_ms: shard.write(
                key, state_epoch, leader_epoch, start_offset, complete_count, batches, now_ms
            ),
        )

    async def delete(self, key: ShareKey) -> None:
        await self.runtime.run(coordinator_key(key), lambda shard, now_ms: shard.delete(key))

    async def summary(self, key: ShareKey) -> ShareSnapshot | None:
        found: ShareSnapshot | None = await settled(
            self.runtime.read(coordinator_key(key), lambda shard, now_ms: shard.summary(key))
        )
        return found


def _first_needed_offset(end_offset: int, shard: ShareStateShard, now_ms: int) -> int:
    return shard.first_needed_offset(end_offset)
