"""The queues of the partitions that this broker leads: fetched from, acknowledged, given up when a lock is over.

A queue is loaded when somebody first fetches from it, and let go when nobody has it in a session any more, when the
partition's leader changes, or when its state could not be written: what is durable is in the share coordinator's log,
and loading it again is all it takes to be right. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, StateBatch
from headrace.coordinators.runtime import wall_clock_ms
from headrace.coordinators.share.core.share_partition import Acknowledgement, Acquired, SharePartition
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.core.starting import StartingPoint, starting_point
from headrace.coordinators.share.settings import QueueSettings
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused, UnknownPartition, UnknownTopicId
from headrace.records.batch import BatchView, batches
from headrace.records.control import ControlType, read_control
from headrace.records.reader import read_records
from headrace.replication.waiters import ReaderSet

_log = logging.getLogger(__name__)
_READ_COMMITTED: Final = 1
_LATEST, _EARLIEST = -1, -2


class LedPartitions(Protocol):
    def get(self, topic: str, index: int) -> Any | None: ...


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
    partition: Any
    isolation: int
    waiting: ReaderSet
    timer: asyncio.TimerHandle | None = None
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Handed:
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
        self._writing: set[asyncio.Future[None]] = set()

    def settings_of(self, group_id: str) -> QueueSettings:
        return self._settings(group_id)

    def close(self) -> None:
        for key in list(self._queues):
            self._drop(key)
        for loading in self._loading.values():
            loading.cancel()
        for writing in self._writing:
            writing.cancel()

    # --- finding and loading ------------------------------------------------------------------------------------

    def check_topic(self, topic_id: uuid.UUID) -> str:
        """Its name. Raises UNKNOWN_TOPIC_ID."""
        name = self._view.current.topic_names.get(topic_id)
        if name is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return name

    def _led(self, key: ShareKey) -> Any:
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
        queue = Queue(key, leader_epoch, core, partition, settings.isolation, ReaderSet())
        self._queues[key] = queue
        return queue

    def _first_offset(self, partition: Any, settings: QueueSettings) -> int:
        where = starting_point(settings.auto_offset_reset)
        if where is StartingPoint.EARLIEST:
            return int(partition.log_start_offset)
        if where is not StartingPoint.LATEST:
            found = partition.offset_for(self._clock() - int(where), settings.isolation, -1)
            if found is not None and found[0] >= 0:
                return int(found[0])
        return int(partition.high_watermark)

    def _drop(self, key: ShareKey) -> None:
        queue = self._queues.pop(key, None)
        if queue is not None:
            if queue.timer is not None:
                queue.timer.cancel()
            queue.waiting.wake_all()

    def forget_idle(self, key: ShareKey) -> None:
        """Nobody reads it in a session: it is loaded again when somebody does."""
        queue = self._queues.get(key)
        if queue is not None and not queue.core.locked_by_anyone and not queue.writes:
            self._drop(key)

    # --- fetching -----------------------------------------------------------------------------------------------

    def hand_out(self, queue: Queue, member: str, max_bytes: int, max_records: int, *, strict: bool) -> Handed | None:
        """What is there for `member` now; None when there is nothing. Raises what reading raises."""
        self._as_set_now(queue)
        core, partition = queue.core, queue.partition
        core.log_start_moved(partition.log_start_offset)
        if max_records <= 0 or not core.has_room:
            return None
        offset = core.next_fetch_offset
        end = partition.last_stable_offset if queue.isolation == _READ_COMMITTED else partition.high_watermark
        if offset >= end:
            return None
        found = partition.read(offset, max_bytes, isolation=queue.isolation)
        if found.slice is None or not found.slice.length:
            return None
        data = os.pread(found.slice.file.fileno(), found.slice.length, found.slice.position)
        data, last = _whole_batches(data, offset, None if strict else max_records)
        last = min(last, end - 1)
        if last < offset:
            return None
        if queue.isolation == _READ_COMMITTED and found.aborted:
            self._archive_aborted(queue, data, found.aborted)
        acquired = core.acquire(member, offset, last, self._clock(), at_most=max_records if strict else None)
        if not acquired:
            return None
        self._watch_locks(queue)
        return Handed(_spanning(data, acquired[0].first, acquired[-1].last), acquired)

    def _as_set_now(self, queue: Queue) -> None:
        """A group's settings may change while its queue is read: from then on they count, for waiting fetches too."""
        settings, core = self._settings(queue.key.group_id), queue.core
        queue.isolation = settings.isolation
        core.max_locks, core.max_deliveries, core.lock_ms = (
            settings.max_locks,
            settings.max_deliveries,
            settings.lock_ms,
        )

    def _archive_aborted(self, queue: Queue, data: bytes, aborted: Sequence[Any]) -> None:
        """Records of aborted transactions are nobody's."""
        changes: list[StateBatch] = []
        coming = sorted(aborted, key=lambda each: each.first_offset)
        open_producers: set[int] = set()
        for batch in batches(memoryview(data)):
            while coming and coming[0].first_offset <= batch.last_offset:
                open_producers.add(coming.pop(0).producer_id)
            if batch.is_control:
                if _ends_aborted(batch):
                    open_producers.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in open_producers:
                first = max(batch.base_offset, queue.core.start_offset)
                if first <= batch.last_offset:
                    changes += queue.core.archive(first, batch.last_offset)
        if changes:
            self._write_later(queue, changes)

    # --- acknowledging ------------------------------------------------------------------------------------------

    async def acknowledge(self, key: ShareKey, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Done when it is durable. Raises Refused and its kin; then nothing of it counts."""
        queue = self.loaded(key)
        if queue is None:
            raise Refused(ErrorCode.invalid_record_state, "nothing of this partition is out: its queue was let go")
        changes = queue.core.acknowledge(member, acknowledgements, self._clock())
        self._watch_locks(queue)
        if changes:
            await self._write(queue, changes)

    async def release(self, key: ShareKey, member: str) -> None:
        try:
            queue = self.loaded(key)
        except Fault:
            return
        if queue is not None:
            changes = queue.core.release(member)
            self._watch_locks(queue)
            if changes:
                await self._write(queue, changes)

    async def _write(self, queue: Queue, changes: Sequence[StateBatch]) -> None:
        core = queue.core
        queue.writes += 1
        try:
            await self._persister.write(
                queue.key,
                core.state_epoch,
                queue.leader_epoch,
                core.start_offset,
                core.delivery_complete_count,
                changes,
            )
        except Fault:
            # The memory is ahead of the log: whoever comes next loads what is durable.
            if self._queues.get(queue.key) is queue:
                self._drop(queue.key)
            raise
        finally:
            queue.writes -= 1
            queue.waiting.wake_all()

    def _write_later(self, queue: Queue, changes: Sequence[StateBatch]) -> None:
        task = asyncio.ensure_future(self._write_quietly(queue, changes))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_quietly(self, queue: Queue, changes: Sequence[StateBatch]) -> None:
        try:
            await self._write(queue, changes)
        except Fault as fault:
            _log.warning("%s: what was given up was not written: %s", queue.key, fault.message)

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
        if self._queues.get(queue.key) is not queue:
            return
        changes = queue.core.expire(self._clock())
        self._watch_locks(queue)
        if changes:
            self._write_later(queue, changes)


def _whole_batches(data: bytes, offset: int, max_records: int | None) -> tuple[bytes, int]:
    """The batches from the one that holds `offset` on, as many as `max_records` asks for, and their last offset."""
    begin: int | None = None
    at, last = 0, offset - 1
    for batch in batches(memoryview(data)):
        end = at + batch.size_bytes
        if batch.last_offset >= offset:
            if begin is None:
                begin = at
            last = batch.last_offset
            if max_records is not None and last - offset + 1 >= max_records:
                return data[begin:end], last
        at = end
    return data[begin or 0 : at], last


def _spanning(data: bytes, first: int, last: int) -> bytes:
    """Only the batches that hold something of first…last."""
    begin, at, end = 0, 0, 0
    for batch in batches(memoryview(data)):
        at += batch.size_bytes
        if batch.last_offset < first:
            begin = at
        if batch.base_offset <= last:
            end = at
    return data[begin:end]


def _ends_aborted(batch: BatchView) -> bool:
    return any(read_control(record).type is ControlType.ABORT for record in read_records(batch))
