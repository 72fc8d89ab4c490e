"""A copy of one partition on this broker, whatever its role: the log, its marks, who waits at them, and following a
leader.

`Partition` adds the role. What is here is the same for leader and follower, or only a follower's business: taking what
the leader sends, cutting what the leader never had (by epochs, never by a mark), beginning anew where the leader
begins. Owned by the event loop.
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
    """What a fetch of one partition gives: bytes of whole batches (or none yet), and the marks at that moment."""

    slice: Slice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None
    diverging_epoch: EpochEnd | None = None
    preferred_read_replica: int = -1


class Follower(NamedTuple):
    """A replica that reads as such."""

    id: int
    broker_epoch: int
    # It says by its reading what it holds; False when a request of it that waits is only looked at again.
    is_news: bool = True


class ReplicaContext(Protocol):
    """What a partition needs to know of its broker."""

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
        self.readers = ReaderSet()  # consumers: told when the high watermark moves
        self.tail_readers = ReaderSet()  # followers: told when the log grows
        self.around = around
        self.bytes_replicated = 0  # taken from leaders since this broker started

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
        """The answer to a reader whose log left ours; None when it agrees with ours up to `offset`."""
        end = divergence(offset, last_fetched_epoch, self.epoch_end(last_fetched_epoch))
        return None if end is None else self.marks(diverging_epoch=end)

    def could_not_write(self) -> None:
        """A disk that failed takes its directory offline, which is told of as a whole; here it is only full."""
        if self.log.offline_reason is None:
            self.around.no_room_for(self)

    def read_for_consumer(self, offset: int, max_bytes: int, isolation: int, min_one: bool) -> PartitionRead:
        """Whole batches below the mark that this reader may see. Raises OffsetOutOfRange, StorageFault."""
        log = self.log
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        bound = stable if isolation == READ_COMMITTED else high_watermark
        if bound <= offset <= log.log_end_offset:
            # Between the mark and the log end: not out of range, there is only nothing to show yet.
            nothing: list[AbortedTransaction] | None = [] if isolation == READ_COMMITTED else None
            return PartitionRead(None, high_watermark, stable, log.log_start_offset, nothing)
        found = log.read(offset, max_bytes, up_to=bound, min_one_batch=min_one)
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = log.aborted_transactions(offset, bound) if found is not None else []
        return PartitionRead(found, high_watermark, stable, log.log_start_offset, aborted)

    # ---- following ------------------------------------------------------------------------------------------------

    def last_epoch(self) -> int:
        """The epoch of the last record held, by which the leader finds where the logs part; -1 for an empty log."""
        return self.log.leader_epochs.latest

    def append_as_follower(self, records: memoryview, leader_high_watermark: int, leader_log_start: int) -> None:
        """Take what the leader of our current epoch sent: records (maybe none), then its marks."""
        assert not self.is_leader, "a leader appends no records of another replica"
        log = self.log
        if len(records):
            log.append_as_follower(records)
            self.bytes_replicated += len(records)
        mark = follower_high_watermark(leader_high_watermark, log.log_end_offset)
        if mark > log.high_watermark:
            log.advance_high_watermark(mark)
            if self.readers.waiting:
                self.readers.grew(len(records) or 1 << 30)
        start = follower_log_start(leader_log_start, log.log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)

    def truncate_to_agree(self, leader_end: EpochEnd, leader_log_start: int = 0) -> int:
        """Cut off what the leader does not have (rule 1: by epochs, never by a mark). Gives the new log end."""
        log = self.log
        own = EpochEnd(*log.leader_epochs.end_offset_for(leader_end.epoch, log.log_end_offset))
        cut = truncation_point(leader_end, own, log.log_end_offset)
        if cut <= leader_log_start and log.log_end_offset > log.log_start_offset:
            # All that is left lies below the leader's start, where it cannot tell any more whether the logs agree.
            log.truncate_fully_and_start_at(leader_log_start)
            return log.log_end_offset
        if cut < log.log_start_offset:
            log.truncate_fully_and_start_at(cut)
        elif cut < log.log_end_offset:
            log.truncate_to(cut)
        # An epoch that we led without writing a record began exactly at the cut; kept, it would diverge for ever.
        log.leader_epochs.truncate_from_end(cut)
        return log.log_end_offset

    def start_over_at(self, offset: int) -> None:
        """The leader has deleted what would come next here: begin again, empty, at its log start."""
        self.log.truncate_fully_and_start_at(offset)
