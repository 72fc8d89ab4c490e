"""One replica in any role: the log, its offsets, the requests that wait for them, and the follower's operations.

`Partition` adds the role. This module has what leader and follower share, and what only a follower does: append what
the leader sends, truncate records that the leader does not have (by epochs, never by the high watermark), and start
over at the leader's log start. Owned by the event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.kernel.isolation import READ_COMMITTED
from headrace.replication.core.follower import follower_high_watermark, follower_log_start, truncation_point
from headrace.replication.core.isr import IsrProposal
from headrace.replication.core.leader import NO_EPOCH, UNDEFINED_OFFSET, EpochEnd, divergence
from headrace.replication.throttles import Throttles
from headrace.replication.waiters import ReaderSet
from headrace.storage.log import Log, Slice
from headrace.storage.segment.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from headrace.replication.partition import Partition


class PartitionRead(NamedTuple):
    """Result of a fetch of one partition: whole batches (or none yet), and the offsets at that moment."""

    slice: Slice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None
    diverging_epoch: EpochEnd | None = None
    preferred_read_replica: int = -1


class Follower(NamedTuple):
    """The follower that sent a fetch."""

    id: int
    broker_epoch: int
    # Whether the fetch reports the follower's progress; False when a waiting fetch is only checked again.
    is_news: bool = True


class ReplicaContext(Protocol):
    """What a partition needs from its broker."""

    @property
    def broker_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def serves_consumers_from_followers(self) -> bool: ...
    @property
    def throttles(self) -> Throttles: ...
    @property
    def live_brokers(self) -> Mapping[int, int]: ...
    @property
    def heard_at_ms(self) -> Mapping[int, int]: ...
    def monotonic_ms(self) -> int: ...
    def lease_held(self) -> bool: ...
    def ask_for_isr(self, partition: Partition, proposal: IsrProposal) -> None: ...
    def preferred_replica(self, partition: Partition, offset: int, client_rack: str) -> int: ...
    def no_room_for(self, replica: Replica) -> None: ...


class Replica:
    __slots__ = (
        "around",
        "bytes_replicated",
        "index",
        "leader_epoch",
        "log",
        "readers",
        "tail_readers",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, index: int, topic_id: uuid.UUID | None, log: Log, around: ReplicaContext) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.readers = ReaderSet()  # consumers: notified when the high watermark moves
        self.tail_readers = ReaderSet()  # followers: notified when the log grows
        self.around = around
        self.bytes_replicated = 0  # fetched from leaders since this broker started

    @property
    def is_leader(self) -> bool:
        return False

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    def epoch_end(self, epoch: int) -> EpochEnd:
        if epoch == NO_EPOCH:
            return EpochEnd(NO_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.leader_epoch and self.is_leader:
            return EpochEnd(epoch, self.log.log_end_offset)
        return EpochEnd(*self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset))

    def marks(self, *, diverging_epoch: EpochEnd | None = None, preferred_read_replica: int = -1) -> PartitionRead:
        log = self.log
        return PartitionRead(
            None,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            None,
            diverging_epoch,
            preferred_read_replica,
        )

    def diverging(self, offset: int, last_fetched_epoch: int) -> PartitionRead | None:
        """The answer to a reader whose log diverges from this one; None if it agrees up to `offset`."""
        end = divergence(offset, last_fetched_epoch, self.epoch_end(last_fetched_epoch))
        return None if end is None else self.marks(diverging_epoch=end)

    def could_not_write(self) -> None:
        """Reports a full disk. A failed disk takes its directory offline, which is reported once per directory."""
        if self.log.offline_reason is None:
            self.around.no_room_for(self)

    def read_for_consumer(self, offset: int, max_bytes: int, isolation: int, min_one: bool) -> PartitionRead:
        """Whole batches below the high watermark or last stable offset. Raises OffsetOutOfRange, StorageFault."""
        log = self.log
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        bound = stable if isolation == READ_COMMITTED else high_watermark
        if bound <= offset <= log.log_end_offset:
            # The offset is between the high watermark and the log end: it is in range, but has no readable record yet.
            nothing: list[AbortedTransaction] | None = [] if isolation == READ_COMMITTED else None
            return PartitionRead(None, high_watermark, stable, log.log_start_offset, nothing)
        found = log.read(offset, max_bytes, up_to=bound, min_one_batch=min_one)
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = log.aborted_transactions_in(found, offset, bound) if found is not None else []
        return PartitionRead(found, high_watermark, stable, log.log_start_offset, aborted)

    # Following

    def last_epoch(self) -> int:
        """The epoch of the last record, with which the leader detects divergence; -1 for an empty log."""
        return self.log.leader_epochs.latest

    def append_as_follower(self, records: memoryview, leader_high_watermark: int, leader_log_start: int) -> None:
        """Appends what the leader of the current epoch sent: records (maybe none), then its offsets."""
        assert not self.is_leader, "a leader appends no records of another replica"
        log = self.log
        had_committed_all = log.high_watermark == log.log_end_offset
        if len(records):
            log.append_as_follower(records)
            self.bytes_replicated += len(records)
        mark = follower_high_watermark(leader_high_watermark, log.log_end_offset)
        if mark > log.high_watermark:
            ended = log.advance_high_watermark(mark)
            if self.readers.waiting:
                # Mostly the leader commits records at the next fetch: the bytes of the earlier ones are not counted.
                self.readers.grew(len(records) if had_committed_all else 1 << 30)
                if ended:
                    self.readers.transaction_ended()
        start = follower_log_start(leader_log_start, log.log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)

    def truncate_to_agree(self, leader_end: EpochEnd, leader_log_start: int = 0) -> int:
        """Truncates records that the leader does not have, by epochs and never by the high watermark. Returns the new
        log end.
        """
        log = self.log
        own = EpochEnd(*log.leader_epochs.end_offset_for(leader_end.epoch, log.log_end_offset))
        cut = truncation_point(leader_end, own, log.log_end_offset)
        if cut <= leader_log_start and log.log_end_offset > log.log_start_offset:
            # All remaining records are below the leader's log start, where the leader cannot compare the logs.
            log.truncate_fully_and_start_at(leader_log_start)
            return log.log_end_offset
        if cut < log.log_start_offset:
            log.truncate_fully_and_start_at(cut)
        elif cut < log.log_end_offset:
            log.truncate_to(cut)
        # An epoch without records begins exactly at the truncation point. If it stayed, the logs would always diverge.
        log.leader_epochs.truncate_from_end(cut)
        return log.log_end_offset

    def start_over_at(self, offset: int) -> None:
        """The leader has deleted the next records: empties the log and starts it at the leader's log start."""
        self.log.truncate_fully_and_start_at(offset)
