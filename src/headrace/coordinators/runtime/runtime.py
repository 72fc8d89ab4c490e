"""The coordinator runtime: one internal topic, one shard of state per partition that this broker leads.

    runtime = CoordinatorRuntime(InternalTopic("__consumer_offsets", 50), partitions, broker_id, make_shard)
    view.subscribe(lambda old, new: runtime.follow(new))          # after `partitions` has followed the same image
    reply = await runtime.run(group_id, lambda shard, now_ms: shard.heartbeat(...))

Loads a shard when this broker becomes leader of its partition (answering COORDINATOR_LOAD_IN_PROGRESS meanwhile), and
unloads it when leadership is lost (NOT_COORDINATOR). `runtime.shard` describes how one shard runs.
Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeAlias

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.runtime.commits import Reply
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.log import CoordinatorLog, PartitionLog
from headrace.coordinators.runtime.result import DEFERRED, NOTHING, Result, Timer
from headrace.coordinators.runtime.shard import HostedShard, Phase, S, Shard
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import coordinator_partition
from headrace.replication.partition import Partition

__all__ = ["DEFERRED", "NOTHING", "CoordinatorRuntime", "Result", "Shard", "Timer"]

_REMEMBERED_IDS: Final = 10_000


# A reply, or a future of it if it must wait for a commit; `settled` awaits either.
Awaited: TypeAlias = Reply | asyncio.Future[Reply]


class LedPartitions(Protocol):
    """What the runtime needs of `replication.partitions.Partitions`."""

    def get(self, topic: str, index: int) -> Partition | None: ...


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        topic: InternalTopic,
        partitions: LedPartitions,
        broker_id: int,
        make_shard: Callable[[int], S],
        *,
        clock: Clock = SYSTEM_CLOCK,
        make_log: Callable[[Partition, int], CoordinatorLog] = PartitionLog,
    ) -> None:
        """`make_log` takes the partition and the number of bytes to load at a time."""
        self.topic = topic.name
        self.partition_count = topic.partition_count
        self._settings = topic
        self._partitions = partitions
        self._broker_id = broker_id
        self._make_shard = make_shard
        self._make_log = make_log
        self._clock = clock
        self._hosted: dict[int, HostedShard[S]] = {}
        # The replica under each shard. A topic that was deleted and created again has others.
        self._replicas: dict[int, Partition] = {}
        self._partition_of: dict[str, int] = {}

    # Leadership

    def follow(self, image: ClusterImage) -> None:
        """Loads and unloads shards to match the partitions that this broker leads in `image`."""
        topic = image.topics.get(self.topic)
        infos = () if topic is None else topic.partitions
        if infos and len(infos) != self.partition_count:
            self.partition_count = len(infos)
            self._partition_of.clear()
        led = {index: info.leader_epoch for index, info in enumerate(infos) if info.leader == self._broker_id}
        for index in [i for i in self._hosted if i not in led]:
            self.resign(index)
        for index, leader_epoch in led.items():
            hosted = self._hosted.get(index)
            if hosted is not None and self._partitions.get(self.topic, index) is not self._replicas[index]:
                # One image may have both the deletion of the topic and the new topic, whose leader epochs begin at 0.
                self.resign(index)
                hosted = None
            if hosted is None or hosted.leader_epoch < leader_epoch or hosted.phase is Phase.CLOSED:
                self.elect(index, leader_epoch)

    def elect(self, index: int, leader_epoch: int) -> None:
        """This broker leads the partition from `leader_epoch` on: loads its shard."""
        hosted = self._hosted.get(index)
        partition = self._partitions.get(self.topic, index)
        if partition is None:
            return
        if hosted is not None:
            if hosted.leader_epoch == leader_epoch and hosted.phase is not Phase.CLOSED:
                return
            hosted.close()
        fresh = HostedShard(
            f"{self.topic}-{index}",
            leader_epoch,
            self._make_log(partition, self._settings.load_bytes),
            lambda: self._make_shard(index),
            self._clock.wall_ms,
            self._settings.write_timeout_ms,
            self._settings.codec,
        )
        self._hosted[index] = fresh
        self._replicas[index] = partition
        fresh.load()

    def resign(self, index: int) -> None:
        hosted = self._hosted.pop(index, None)
        self._replicas.pop(index, None)
        if hosted is not None:
            hosted.close()

    def close(self) -> None:
        for index in list(self._hosted):
            self.resign(index)

    async def wait_loaded(self) -> None:
        """Until no shard is loading any more (tests and a graceful start use it)."""
        for hosted in list(self._hosted.values()):
            await hosted.wait_loaded()

    # Operations

    def partition_of(self, key_id: str) -> int:
        index = self._partition_of.get(key_id)
        if index is None:
            # Cached: hashing an id costs as much as the rest of a heartbeat.
            if len(self._partition_of) >= _REMEMBERED_IDS:
                self._partition_of.clear()
            index = self._partition_of[key_id] = coordinator_partition(key_id, self.partition_count)
        return index

    def hosted(self, index: int) -> HostedShard[S]:
        """Raises NOT_COORDINATOR if another broker leads. While it loads, an operation raises
        COORDINATOR_LOAD_IN_PROGRESS."""
        hosted = self._hosted.get(index)
        if hosted is None:
            raise Refused(ErrorCode.not_coordinator, f"{self.topic}-{index} is not led by this broker")
        return hosted

    def leader_epoch(self, index: int) -> int:
        """The coordinator epoch of a shard: the leader epoch under which it was loaded."""
        return self.hosted(index).leader_epoch

    def submit(self, key_id: str, operation: Callable[[S, int], Result], *, asks_first: bool = True) -> Any:
        """Runs an operation on the shard of `key_id`. Returns its reply, or a future if it must be committed first."""
        hosted = self._hosted.get(self._partition_of.get(key_id, -1))
        if hosted is None:
            hosted = self.hosted(self.partition_of(key_id))
        return hosted.submit(operation, asks_first=asks_first)

    def read(self, key_id: str, operation: Callable[[S, int], Reply]) -> Reply | asyncio.Future[Reply]:
        """Reads from the shard of `key_id`. Returns the answer, or a future while the state it saw is not committed."""
        return self.hosted(self.partition_of(key_id)).read(operation)

    async def read_all(self, operation: Callable[[S, int], Iterable[Reply]]) -> list[Reply]:
        """What the operation finds in all shards of this broker, for requests over all of them (ListGroups,
        ListTransactions). Raises COORDINATOR_LOAD_IN_PROGRESS while one is being loaded, and COORDINATOR_NOT_AVAILABLE
        while this broker has no lease."""
        if self.loading:
            raise Refused(ErrorCode.coordinator_load_in_progress, f"{self.topic} is being loaded: try again")
        found: list[Reply] = []
        for index, hosted in list(self.active_shards()):
            try:
                here: Awaited[Iterable[Reply]] = hosted.read(operation)
                found.extend(await settled(here))
            except Refused as refused:
                if refused.code is not ErrorCode.not_coordinator:
                    raise
                if index not in self._hosted:
                    continue  # another broker has it now, and lists it
                raise Refused(ErrorCode.coordinator_not_available, refused.message) from refused
        return found

    async def run(self, key_id: str, operation: Callable[[S, int], Result], *, asks_first: bool = True) -> Any:
        """`submit`, awaited: appends the records as one batch, waits for their commit, gives the reply."""
        return await settled(self.submit(key_id, operation, asks_first=asks_first))

    def active_shards(self) -> Iterator[tuple[int, HostedShard[S]]]:
        """Every loaded shard."""
        return ((i, h) for i, h in sorted(self._hosted.items()) if h.phase is Phase.ACTIVE)

    def hosted_shards(self) -> Iterator[HostedShard[S]]:
        """Every shard, loaded or loading."""
        return iter(list(self._hosted.values()))

    @property
    def loading(self) -> bool:
        return any(h.phase is Phase.LOADING for h in self._hosted.values())

    async def complete_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> None:
        """Ends a transaction in this partition: writes its marker, applies or drops its records."""
        await self.hosted(index).complete_transaction(
            producer_id, producer_epoch, coordinator_epoch, commit, transaction_version
        )


async def settled(reply: Reply | asyncio.Future[Reply]) -> Reply:
    """Awaits a reply that may be a future."""
    if isinstance(reply, asyncio.Future):
        return await reply
    return reply
