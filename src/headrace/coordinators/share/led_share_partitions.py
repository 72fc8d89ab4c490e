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
from dataclasses import field
from typing import Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, StateBatch
from headrace.coordinators.runtime.runtime import LedPartitions
from headrace.coordinators.share.core.acquisition import Acquired, AcquireRequest, LogBatch
from headrace.coordinators.share.core.share_partition import (
    Acknowledgement,
    Changes,
    DeadRecords,
    SharePartition,
    ShareProgress,
)
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.core.starting import StartingPoint, starting_point
from headrace.coordinators.share.dead_letters import DeadLetterTopic
from headrace.coordinators.share.outbox import Outbox
from headrace.coordinators.share.reading import aborted_batches, log_batches, spanning
from headrace.coordinators.share.settings import ShareSettings
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused, UnknownPartition, UnknownTopicId
from headrace.kernel.isolation import READ_COMMITTED, READ_UNCOMMITTED
from headrace.replication.partition import Partition
from headrace.replication.waiters import ReaderSet
from headrace.storage.segment.batch_scan import Slice
from headrace.storage.segment.txn_index import AbortedTransaction

_log = logging.getLogger(__name__)
_PIECE_BYTES: Final = 1 << 20
# How often a lock that is over looks whether the lease has returned.
_LEASE_PAUSE_S: Final = 0.5
_TOLD: Final = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.broker_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.network_exception: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    # Another broker leads now, or the share partition was reset.
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
_LET_GO: Final = frozenset(
    (ErrorCode.group_id_not_found, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)
)


class SharePartitionStates(Protocol):
    """The part of the persister that share partitions need."""

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


class WritesDeadLetters(Protocol):
    async def write(
        self, key: ShareKey, source: Partition, dead: Sequence[DeadRecords], topic: DeadLetterTopic
    ) -> None: ...


@dataclass(slots=True)
class LedSharePartition:
    key: ShareKey
    leader_epoch: int
    core: SharePartition
    partition: Partition
    isolation: int
    waiting: ReaderSet
    outbox: Outbox
    timer: asyncio.TimerHandle | None = None
    letters: set[asyncio.Task[None]] = field(default_factory=set)
    """Changes whose dead letters are being written."""


@dataclass(frozen=True, slots=True)
class AcquiredBatches:
    """Result of a fetch from one share partition: whole batches of the log, and which of their records are acquired."""

    records: bytes
    acquired: list[Acquired]


class LedSharePartitions:
    def __init__(
        self,
        partitions: LedPartitions,
        view: ClusterView,
        persister: SharePartitionStates,
        settings: Callable[[str], ShareSettings],
        catch_up: Callable[[], Awaitable[None]],
        dead_letters: WritesDeadLetters,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._persister = persister
        self._settings = settings
        self._catch_up = catch_up
        self._dead_letters = dead_letters
        self._wall_ms = clock.wall_ms
        # Locks count on the monotonic clock: if the wall clock is set back, they must not last longer.
        self._monotonic_ms = clock.monotonic_ms
        self._share_partitions: dict[ShareKey, LedSharePartition] = {}
        self._loading: dict[ShareKey, asyncio.Task[LedSharePartition]] = {}

    def settings_of(self, group_id: str) -> ShareSettings:
        return self._settings(group_id)

    def close(self) -> None:
        for key, share_partition in list(self._share_partitions.items()):
            share_partition.outbox.close()
            for writing in share_partition.letters:
                writing.cancel()
            self._drop(key)
        for loading in self._loading.values():
            loading.cancel()

    # Finding and loading

    def check_topic(self, topic_id: uuid.UUID) -> str:
        """The topic's name. Raises UNKNOWN_TOPIC_ID."""
        name = self._view.current.topic_names.get(topic_id)
        if name is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return name

    def check_partition(self, partition: tuple[uuid.UUID, int]) -> None:
        """Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION."""
        name = self.check_topic(partition[0])
        if self._view.current.partition(name, partition[1]) is None:
            raise UnknownPartition(f"{name} has no partition {partition[1]}")

    def _led(self, key: ShareKey) -> Partition:
        """The partition, if this broker leads it with its lease."""
        partition = self._led_by_image(key)
        partition.check_leads()
        return partition

    def _led_by_image(self, key: ShareKey) -> Partition:
        """The partition, if this broker leads it. Without the lease another broker may lead it already."""
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

    def loaded(self, key: ShareKey) -> LedSharePartition | None:
        """None when it is not loaded. Raises NotLeader and other faults."""
        return self._loaded_in_epoch_of(self._led(key), key)

    def _loaded_in_epoch_of(self, partition: Partition, key: ShareKey) -> LedSharePartition | None:
        share_partition = self._share_partitions.get(key)
        if share_partition is not None and (
            share_partition.partition is not partition or share_partition.leader_epoch != partition.leader_epoch
        ):
            self._drop(key)
            return None
        return share_partition

    async def load(self, key: ShareKey) -> LedSharePartition:
        share_partition = self.loaded(key)
        if share_partition is not None:
            return share_partition
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(self._load(key))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(task)

    async def _load(self, key: ShareKey) -> LedSharePartition:
        partition = self._led(key)
        leader_epoch = partition.leader_epoch
        stored = await self._persister.read(key, leader_epoch)
        start = stored.start_offset
        if start == NOT_STARTED:
            # The start offset is decided once, so it needs the newest settings, also those just set at another broker.
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
            names_dead=settings.dead_letters is not None,
        )
        waiting = ReaderSet()

        async def write(standing: ShareProgress, batches: Sequence[StateBatch]) -> None:
            await self._write(share_partition, standing, batches)

        outbox = Outbox(f"{key.group_id}:{key.topic_id}:{key.partition}", core, write, self._monotonic_ms)
        share_partition = LedSharePartition(key, leader_epoch, core, partition, settings.isolation, waiting, outbox)
        self._share_partitions[key] = share_partition
        return share_partition

    def _first_offset(self, partition: Partition, settings: ShareSettings) -> int:
        where = starting_point(settings.auto_offset_reset)
        if where is StartingPoint.EARLIEST:
            return int(partition.log_start_offset)
        if where is not StartingPoint.LATEST:
            # Includes records of open transactions: they are newer than the time too.
            found = partition.offset_for(self._wall_ms() - int(where), READ_UNCOMMITTED, -1)
            if found is not None and found[0] >= 0:
                return int(found[0])
        return int(partition.high_watermark)

    def _drop(self, key: ShareKey) -> None:
        share_partition = self._share_partitions.pop(key, None)
        if share_partition is not None:
            if share_partition.timer is not None:
                share_partition.timer.cancel()
            share_partition.waiting.wake_all()

    def forget_group(self, group_id: str) -> None:
        """The group has no session on this broker. A later fetch loads its share partitions again."""
        for key, share_partition in list(self._share_partitions.items()):
            if key.group_id == group_id and share_partition.outbox.is_empty and not share_partition.letters:
                self._drop(key)

    # Fetching

    def is_open(self, share_partition: LedSharePartition) -> bool:
        """Whether a fetch may acquire: released records, or new ones while locks are free."""
        self._as_set_now(share_partition)
        share_partition.core.log_start_moved(share_partition.partition.log_start_offset)
        return share_partition.core.has_room

    def readable_bytes(self, share_partition: LedSharePartition, max_bytes: int) -> int:
        """Readable bytes from the next fetch offset. Raises the faults of a read."""
        found = self._read(share_partition, max_bytes, min_one=False)
        return 0 if found is None else min(found[0].length, max_bytes)

    def hand_out(
        self, share_partition: LedSharePartition, wish: AcquireRequest, max_bytes: int, *, min_one: bool = True
    ) -> AcquiredBatches | None:
        """Acquires from an open share partition; None when there is no record. `min_one`: at least one batch, even
        if it is larger than `max_bytes`. Raises the faults of a read.
        """
        while True:
            offset = share_partition.core.next_fetch_offset
            found = self._read(share_partition, max_bytes, min_one=min_one)
            if found is None:
                return None
            data, read = _batches_of(found[0], offset, self._end(share_partition), wish.max_records)
            if not read:
                return None
            archived = False
            if share_partition.isolation == READ_COMMITTED:
                for batch in aborted_batches(data, found[1]):
                    changes = share_partition.core.archive(*batch)
                    share_partition.outbox.put(changes)
                    archived |= bool(changes.batches)
            acquired = share_partition.core.acquire(wish, offset, read, self._monotonic_ms())
            if acquired:
                self._watch_locks(share_partition)
                return AcquiredBatches(spanning(data, acquired), acquired)
            if not archived:
                return None

    def _end(self, share_partition: LedSharePartition) -> int:
        partition = share_partition.partition
        return partition.last_stable_offset if share_partition.isolation == READ_COMMITTED else partition.high_watermark

    def _read(
        self, share_partition: LedSharePartition, max_bytes: int, *, min_one: bool
    ) -> tuple[Slice, list[AbortedTransaction]] | None:
        """Whole batches, and their aborted transactions."""
        offset = share_partition.core.next_fetch_offset
        if not share_partition.core.has_room or offset >= self._end(share_partition):
            return None
        found = share_partition.partition.read(offset, max_bytes, isolation=share_partition.isolation, min_one=min_one)
        if found.slice is None or not found.slice.length:
            return None
        return found.slice, found.aborted or []

    def _as_set_now(self, share_partition: LedSharePartition) -> None:
        """Applies changed settings of the group, also for waiting fetches."""
        settings, core = self._settings(share_partition.key.group_id), share_partition.core
        share_partition.isolation = settings.isolation
        core.max_locks, core.max_deliveries, core.lock_ms = (
            settings.max_locks,
            settings.max_deliveries,
            settings.lock_ms,
        )
        core.names_dead = settings.dead_letters is not None

    # Acknowledging

    async def acknowledge(self, key: ShareKey, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Returns when the acknowledgement is durable. After a fault none of it has taken effect."""
        share_partition = self.loaded(key)
        if share_partition is None:
            raise Refused(
                ErrorCode.invalid_record_state,
                "no record of this partition is acquired: its share partition was unloaded",
            )
        changes = share_partition.core.acknowledge(member, acknowledgements, self._monotonic_ms())
        self._watch_locks(share_partition)
        await self._put(share_partition, changes)

    async def release(self, key: ShareKey, member: str) -> None:
        # Also without the lease: if another broker leads, the share coordinator refuses the change.
        try:
            share_partition = self._loaded_in_epoch_of(self._led_by_image(key), key)
        except Fault:
            return
        if share_partition is not None:
            changes = share_partition.core.release(member)
            self._watch_locks(share_partition)
            await self._put(share_partition, changes)

    def _put(self, share_partition: LedSharePartition, changes: Changes) -> Awaitable[None]:
        """Writes the change, after the letters of its dead records. Awaiting it is optional, and a caller that goes
        away does not stop it: no other task could finish the change."""
        settings = self._settings(share_partition.key.group_id)
        if not changes.dead or settings.dead_letters is None:
            return share_partition.outbox.put(changes)

        async def write(topic: DeadLetterTopic) -> None:
            try:
                await self._dead_letters.write(share_partition.key, share_partition.partition, changes.dead, topic)
            except NotLeader:
                assert changes.number is not None, "a change with dead records can be reverted"
                share_partition.core.undone({changes.number}, self._monotonic_ms())
                self._written(share_partition)
                raise
            await share_partition.outbox.put(changes)

        writing = asyncio.ensure_future(write(settings.dead_letters))
        share_partition.letters.add(writing)
        writing.add_done_callback(share_partition.letters.discard)
        answer = asyncio.shield(writing)
        for future in (writing, answer):
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # the outbox logs it
        return answer

    async def _write(
        self, share_partition: LedSharePartition, standing: ShareProgress, changes: Sequence[StateBatch]
    ) -> None:
        """Raises the error for the member. The share coordinator knows the current leader better than an old leader."""
        try:
            await self._persister.write(
                share_partition.key, share_partition.core.state_epoch, share_partition.leader_epoch, *standing, changes
            )
        except Fault as fault:
            code = _TOLD.get(fault.code, ErrorCode.unknown_server_error)
            # The coordinator answers INVALID_REQUEST for a deleted share partition.
            if (code in _LET_GO or fault.code is ErrorCode.invalid_request) and self._share_partitions.get(
                share_partition.key
            ) is share_partition:
                self._drop(share_partition.key)  # the next fetch loads the durable state
            raise Refused(code, fault.message) from fault
        finally:
            # The outbox applies the outcome in this turn of the event loop; waiting fetches check afterwards.
            asyncio.get_running_loop().call_soon(self._written, share_partition)

    def _written(self, share_partition: LedSharePartition) -> None:
        if self._share_partitions.get(share_partition.key) is share_partition:
            self._watch_locks(share_partition)
        share_partition.waiting.wake_all()

    # Locks

    def _watch_locks(self, share_partition: LedSharePartition) -> None:
        if share_partition.timer is not None:
            share_partition.timer.cancel()
            share_partition.timer = None
        expiry_ms = share_partition.core.next_expiry_ms
        if expiry_ms is not None and self._share_partitions.get(share_partition.key) is share_partition:
            delay = max(expiry_ms - self._monotonic_ms(), 0) / 1000
            share_partition.timer = asyncio.get_running_loop().call_later(delay, self._locks_are_over, share_partition)

    def _locks_are_over(self, share_partition: LedSharePartition) -> None:
        """Without the lease the locks wait: it may return in the same leader epoch, and the other locks are still valid
        then. Records that were delivered too often could not be read for their dead letters."""
        share_partition.timer = None
        key = share_partition.key
        try:
            partition = self._led_by_image(key)
            if self._loaded_in_epoch_of(partition, key) is not share_partition:
                return
        except Fault:
            self._drop(key)  # its topic is deleted, or another broker leads and writes its state
            return
        try:
            partition.check_leads()
        except NotLeader:
            loop = asyncio.get_running_loop()
            share_partition.timer = loop.call_later(_LEASE_PAUSE_S, self._locks_are_over, share_partition)
            return
        self._put(share_partition, share_partition.core.expire(self._monotonic_ms()))
        self._watch_locks(share_partition)
        share_partition.waiting.wake_all()


def _batches_of(found: Slice, offset: int, end: int, max_records: int) -> tuple[bytes, list[LogBatch]]:
    """Reads only as much as needed: mostly the first piece holds all the requested records."""
    size = min(found.length, _PIECE_BYTES)
    while True:
        data = os.pread(found.file.fileno(), size, found.position)
        read = log_batches(data, offset, end)
        if size == found.length or (read and read[-1].last - offset + 1 >= max_records):
            return data, read
        size = found.length
