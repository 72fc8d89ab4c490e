"""The share partitions that this broker leads: fetch, acknowledge, expiry of locks.

A share partition is loaded on its first fetch. It is unloaded when its group has no session on this broker, when the
partition's leader changes, or when the share coordinator knows a newer leader. That is safe, because the durable state
is in the share coordinator's log. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, StateBatch
from headrace.coordinators.runtime.runtime import LedPartitions, wall_clock_ms
from headrace.coordinators.share.core.handing_out import Acquired, AcquireRequest, LogBatch
from headrace.coordinators.share.core.share_partition import Acknowledgement, SharePartition, ShareProgress
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.core.starting import StartingPoint, starting_point
from headrace.coordinators.share.outbox import Outbox
from headrace.coordinators.share.reading import aborted_batches, log_batches, spanning
from headrace.coordinators.share.settings import QueueSettings
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused, UnknownPartition, UnknownTopicId
from headrace.kernel.isolation import READ_COMMITTED, READ_UNCOMMITTED
from headrace.replication.partition import Partition
from headrace.replication.waiters import ReaderSet
from headrace.storage.segment.batch_scan import Slice
from headrace.storage.segment.txn_index import AbortedTransaction

_log = logging.getLogger(__name__)
_PIECE_BYTES: Final = 1 << 20
_TOLD: Final = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.broker_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.network_exception: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    # Somebody else leads by now, or the queue was begun anew.
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
_LET_GO: Final = frozenset(
    (ErrorCode.group_id_not_found, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)
)


class QueueState(Protocol):
    """What queues need of the persister."""

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot: ...

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None: ...


@dataclass(slots=True)
class Queue:
    key: ShareKey
    leader_epoch: int
    core: SharePartition
    partition: Partition
    isolation: int
    waiting: ReaderSet
    outbox: Outbox
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class AcquiredBatches:
    """What a fetch got of one queue: whole batches as they lie in the log, and which of their records are out."""

    records: bytes
    acquired: list[Acquired]


class Queues:
    def __init__(
        self,
        partitions: LedPartitions,
        view: ClusterView,
        persister: QueueState,
        settings: Callable[[str], QueueSettings],
        catch_up: Callable[[], Awaitable[None]],
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._persister = persister
        self._settings = settings
        self._catch_up = catch_up
        self._clock = clock
        self._queues: dict[ShareKey, Queue] = {}
        self._loading: dict[ShareKey, asyncio.Task[Queue]] = {}

    def settings_of(self, group_id: str) -> QueueSettings:
        return self._settings(group_id)

    def close(self) -> None:
        for key, queue in list(self._queues.items()):
            queue.outbox.close()
            self._drop(key)
        for loading in self._loading.values():
            loading.cancel()

    # --- finding and loading ------------------------------------------------------------------------------------

    def check_topic(self, topic_id: uuid.UUID) -> str:
        """Its name. Raises UNKNOWN_TOPIC_ID."""
        name = self._view.current.topic_names.get(topic_id)
        if name is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return name

    def check_partition(self, partition: tuple[uuid.UUID, int]) -> None:
        """Whether anybody leads it. Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION."""
        name = self.check_topic(partition[0])
        if self._view.current.partition(name, partition[1]) is None:
            raise UnknownPartition(f"{name} has no partition {partition[1]}")

    def _led(self, key: ShareKey) -> Partition:
        name = self.check_topic(key.topic_id)
        partition = self._partitions.get(name, key.partition)
        if partition is None:
            known = self._view.current.partition(name, key.partition) is not None
            if known:
                raise NotLeader(f"{name}-{key.partition} is led by another broker")
            raise UnknownPartition(f"{name} has no partition {key.partition}")
        if partition.isr is None:
            raise NotLeader(f"{name}-{key.partition} is led by another broker")
        return partition

    def loaded(self, key: ShareKey) -> Queue | None:
        """Raises NotLeader and its kin; None when it is not loaded."""
        partition = self._led(key)
        queue = self._queues.get(key)
        if queue is not None and (queue.partition is not partition or queue.leader_epoch != partition.leader_epoch):
            self._drop(key)
            return None
        return queue

    async def load(self, key: ShareKey) -> Queue:
        queue = self.loaded(key)
        if queue is not None:
            return queue
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(self._load(key))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(task)

    async def _load(self, key: ShareKey) -> Queue:
        partition = self._led(key)
        leader_epoch = partition.leader_epoch
        stored = await self._persister.read(key, leader_epoch)
        start = stored.start_offset
        if start == NOT_STARTED:
            # Where it begins is decided once: by what the group was told even a moment ago, on another broker.
            await self._catch_up()
        settings = self._settings(key.group_id)
        if start == NOT_STARTED:
            start = self._first_offset(partition, settings)
        core = SharePartition(
            start,
            stored.batches,
            state_epoch=stored.state_epoch,
            max_locks=settings.max_locks,
            max_deliveries=settings.max_deliveries,
            lock_ms=settings.lock_ms,
        )
        waiting = ReaderSet()

        async def write(standing: ShareProgress, batches: Sequence[StateBatch]) -> None:
            await self._write(queue, standing, batches)

        outbox = Outbox(f"{key.group_id}:{key.topic_id}:{key.partition}", core, write, self._clock)
        queue = Queue(key, leader_epoch, core, partition, settings.isolation, waiting, outbox)
        self._queues[key] = queue
        return queue

    def _first_offset(self, partition: Partition, settings: QueueSettings) -> int:
        where = starting_point(settings.auto_offset_reset)
        if where is StartingPoint.EARLIEST:
            return int(partition.log_start_offset)
        if where is not StartingPoint.LATEST:
            # Also what may still be aborted: it is younger than that all the same.
            found = partition.offset_for(self._clock() - int(where), READ_UNCOMMITTED, -1)
            if found is not None and found[0] >= 0:
                return int(found[0])
        return int(partition.high_watermark)

    def _drop(self, key: ShareKey) -> None:
        queue = self._queues.pop(key, None)
        if queue is not None:
            if queue.timer is not None:
                queue.timer.cancel()
            queue.waiting.wake_all()

    def forget_group(self, group_id: str) -> None:
        """Nobody of the group is here any more: what it read is loaded again when somebody comes."""
        for key, queue in list(self._queues.items()):
            if key.group_id == group_id and queue.outbox.is_empty:
                self._drop(key)

    # --- fetching -----------------------------------------------------------------------------------------------

    def is_open(self, queue: Queue) -> bool:
        """Whether a fetch may look for something: given back, or new as far as there are locks."""
        self._as_set_now(queue)
        queue.core.log_start_moved(queue.partition.log_start_offset)
        return queue.core.has_room

    def readable_bytes(self, queue: Queue, max_bytes: int) -> int:
        """From where the next fetch reads. Raises what reading raises."""
        found = self._read(queue, max_bytes, min_one=False)
        return 0 if found is None else min(found[0].length, max_bytes)

    def hand_out(
        self, queue: Queue, wish: AcquireRequest, max_bytes: int, *, min_one: bool = True
    ) -> AcquiredBatches | None:
        """What is there now of a queue that is open; None when there is nothing. `min_one`: at least one batch, though
        it has more bytes than asked for. Raises what reading raises.
        """
        while True:
            offset = queue.core.next_fetch_offset
            found = self._read(queue, max_bytes, min_one=min_one)
            if found is None:
                return None
            data, read = _batches_of(found[0], offset, self._end(queue), wish.max_records)
            if not read:
                return None
            archived = False
            if queue.isolation == READ_COMMITTED:
                for batch in aborted_batches(data, found[1]):
                    changes = queue.core.archive(*batch)
                    queue.outbox.put(changes)
                    archived |= bool(changes.batches)
            acquired = queue.core.acquire(wish, offset, read, self._clock())
            if acquired:
                self._watch_locks(queue)
                return AcquiredBatches(spanning(data, acquired), acquired)
            if not archived:
                return None

    def _end(self, queue: Queue) -> int:
        partition = queue.partition
        return partition.last_stable_offset if queue.isolation == READ_COMMITTED else partition.high_watermark

    def _read(self, queue: Queue, max_bytes: int, *, min_one: bool) -> tuple[Slice, list[AbortedTransaction]] | None:
        """Whole batches, and the transactions in them that were aborted."""
        offset = queue.core.next_fetch_offset
        if not queue.core.has_room or offset >= self._end(queue):
            return None
        found = queue.partition.read(offset, max_bytes, isolation=queue.isolation, min_one=min_one)
        if found.slice is None or not found.slice.length:
            return None
        return found.slice, found.aborted or []

    def _as_set_now(self, queue: Queue) -> None:
        """A group's settings may change while its queue is read: from then on they count, for waiting fetches too."""
        settings, core = self._settings(queue.key.group_id), queue.core
        queue.isolation = settings.isolation
        core.max_locks, core.max_deliveries, core.lock_ms = (
            settings.max_locks,
            settings.max_deliveries,
            settings.lock_ms,
        )

    # --- acknowledging ------------------------------------------------------------------------------------------

    async def acknowledge(self, key: ShareKey, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Done when it is durable. Raises Refused and its kin; then nothing of it counts."""
        queue = self.loaded(key)
        if queue is None:
            raise Refused(ErrorCode.invalid_record_state, "nothing of this partition is out: its queue was let go")
        changes = queue.core.acknowledge(member, acknowledgements, self._clock())
        self._watch_locks(queue)
        await queue.outbox.put(changes)

    async def release(self, key: ShareKey, member: str) -> None:
        try:
            queue = self.loaded(key)
        except Fault:
            return
        if queue is not None:
            changes = queue.core.release(member)
            self._watch_locks(queue)
            await queue.outbox.put(changes)

    async def _write(self, queue: Queue, standing: ShareProgress, changes: Sequence[StateBatch]) -> None:
        """Raises what a member is told: who leads is known by the share coordinator better than by a leader of old."""
        try:
            await self._persister.write(queue.key, queue.core.state_epoch, queue.leader_epoch, *standing, changes)
        except Fault as fault:
            code = _TOLD.get(fault.code, ErrorCode.unknown_server_error)
            # A queue that was deleted is refused as a bad request.
            if (code in _LET_GO or fault.code is ErrorCode.invalid_request) and self._queues.get(queue.key) is queue:
                self._drop(queue.key)  # whoever comes next loads what is durable
            raise Refused(code, fault.message) from fault
        finally:
            # The outbox counts the outcome in this very turn; only then does anybody look.
            asyncio.get_running_loop().call_soon(self._written, queue)

    def _written(self, queue: Queue) -> None:
        if self._queues.get(queue.key) is queue:
            self._watch_locks(queue)
        queue.waiting.wake_all()

    # --- locks --------------------------------------------------------------------------------------------------

    def _watch_locks(self, queue: Queue) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        expiry_ms = queue.core.next_expiry_ms
        if expiry_ms is not None and self._queues.get(queue.key) is queue:
            delay = max(expiry_ms - self._clock(), 0) / 1000
            queue.timer = asyncio.get_running_loop().call_later(delay, self._locks_are_over, queue)

    def _locks_are_over(self, queue: Queue) -> None:
        queue.timer = None
        try:
            if self.loaded(queue.key) is not queue:
                return
        except Fault:
            self._drop(queue.key)  # its topic is gone, or somebody else leads: it is not ours to write about
            return
        queue.outbox.put(queue.core.expire(self._clock()))
        self._watch_locks(queue)
        queue.waiting.wake_all()


def _batches_of(found: Slice, offset: int, end: int, max_records: int) -> tuple[bytes, list[LogBatch]]:
    """As much of it as it takes: mostly the first piece holds all the records that are asked for."""
    size = min(found.length, _PIECE_BYTES)
    while True:
        data = os.pread(found.file.fileno(), size, found.position)
        read = log_batches(data, offset, end)
        if size == found.length or (read and read[-1].last - offset + 1 >= max_records):
            return data, read
        size = found.length
