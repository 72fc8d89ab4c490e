"""Producer state of a partition: sequence numbers, which detect duplicates, and open transactions. Pure.

A producer numbers its batches. The partition remembers the last five, because a client may have five requests in
flight. It answers a batch that is among them with the offset of the first append, accepts a batch that continues the
sequence, and refuses any other, because that would lose or duplicate records. A batch with a lower epoch is fenced: a
newer producer has replaced its producer.

A transaction is open in this partition from its first batch to its marker. The last stable offset is below the first
open transaction, and below any finished one whose marker is not yet replicated. Mirrors Kafka's ProducerStateManager
(KIP-98, KIP-890).

Invariant: `ongoing` is in rising order of first offsets (batches are appended in order, snapshots are loaded sorted).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from typing import Final, NamedTuple

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchView

REMEMBERED_BATCHES: Final = 5
MAX_EPOCH: Final = 32767


class RecentBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class Producer:
    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    txn_first_offset: int | None = None
    # When this broker wrote the last batch. None on a replica: the next check for idle producers takes its own time.
    written_ms: int | None = None
    batches: deque[RecentBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def duplicate_of(self, batch: BatchView) -> RecentBatch | None:
        if batch.producer_epoch != self.epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for mark in self.batches:
            if mark.last_sequence == last and mark.first_sequence == first:
                return mark
        return None


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


@dataclass(slots=True)
class Verification:
    """The leader has asked the coordinator about this producer's transaction; the append must present `guard`."""

    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    created_ms: int
    guard: object = field(default_factory=object)


@dataclass
class Producers:
    entries: dict[int, Producer] = field(default_factory=dict)
    ongoing: dict[int, int] = field(default_factory=dict)
    unreplicated: list[CompletedTransaction] = field(default_factory=list)
    verifications: dict[int, Verification] = field(default_factory=dict)

    # Before an append

    def duplicate_of(self, batch: BatchView) -> RecentBatch | None:
        """The earlier append of the same batch."""
        entry = self.entries.get(batch.producer_id)
        return None if entry is None else entry.duplicate_of(batch)

    def check(self, batch: BatchView) -> RecentBatch | None:
        """The earlier append if the batch is a duplicate, or None if it may be appended. Raises Refused otherwise."""
        entry = self.entries.get(batch.producer_id)
        duplicate = None if entry is None else entry.duplicate_of(batch)
        if duplicate is not None:
            return duplicate
        if entry is not None and batch.producer_epoch < entry.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {batch.producer_id} with epoch {batch.producer_epoch} was replaced by epoch {entry.epoch}",
            )
        if self.verifications:
            self._check_first_of_transaction(batch, entry)
        if entry is None:
            # All its records may have been deleted, so its last sequence is unknown and any sequence is accepted.
            return None
        if batch.producer_epoch != entry.epoch:
            if batch.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(batch, 0)
        elif not _continues(entry.last_sequence, batch.base_sequence):
            raise _out_of_order(batch, (entry.last_sequence + 1) & MAX_SEQUENCE)
        if entry.txn_first_offset is not None and not batch.is_transactional:
            raise Refused(
                ErrorCode.invalid_txn_state,
                f"producer {batch.producer_id} has a transaction open here: its batches must be part of it",
            )
        return None

    def _check_first_of_transaction(self, batch: BatchView, entry: Producer | None) -> None:
        verification = self.verifications.get(batch.producer_id)
        if verification is None:
            return
        if verification.supports_epoch_bump and batch.base_sequence != 0 and (entry is None or not entry.batches):
            # Sequences restart with every transaction of version 2. A first batch with another sequence than 0 has
            # overtaken an earlier one.
            raise _out_of_order(batch, 0)
        if batch.base_sequence > verification.lowest_sequence:
            raise _out_of_order(batch, verification.lowest_sequence)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        # Each transaction of version 2 ends with a higher epoch, so a marker with the current epoch is a late
        # duplicate. It must not end the next transaction. If none is open, appending it again does no harm.
        late = transaction_version >= 2 and epoch == entry.epoch and epoch < MAX_EPOCH
        if epoch < entry.epoch or (late and entry.txn_first_offset is not None):
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"marker for producer {producer_id} has epoch {epoch}, the partition knows {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"producer {producer_id}: marker of coordinator {coordinator_epoch} after {entry.coordinator_epoch}",
            )

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset is not None and entry.epoch == epoch

    def is_replaced(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.epoch > epoch

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> object | None:
        """The guard for the append, or None if no verification is needed: the transaction is open here, or the producer
        is fenced, which the append reports.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and (entry.epoch > epoch or (entry.epoch == epoch and entry.txn_first_offset is not None)):
            return None
        known = self.verifications.get(producer_id)
        if known is None:
            known = self.verifications[producer_id] = Verification(epoch, sequence, supports_epoch_bump, now_ms)
        elif epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, sequence
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def verified(self, producer_id: int, guard: object | None) -> bool:
        known = self.verifications.get(producer_id)
        return known is not None and guard is known.guard

    # After an append

    def appended(self, batch: BatchView, now_ms: int | None = None) -> None:
        """Records that a data batch with a producer id was appended."""
        producer_id = batch.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = Producer(producer_id)
        if batch.producer_epoch != entry.epoch:
            entry.epoch = batch.producer_epoch
            entry.batches.clear()
        # Also one without a sequence, as the offset commits that Headrace 0.1.0 wrote: compaction keeps all markers of
        # a producer whose last data batch it does not know.
        delta = batch.last_offset_delta
        entry.batches.append(RecentBatch(batch.last_sequence, batch.base_offset + delta, delta, batch.max_timestamp_ms))
        entry.last_timestamp_ms = batch.max_timestamp_ms
        entry.written_ms = now_ms
        if batch.is_transactional:
            self.verifications.pop(producer_id, None)
            if entry.txn_first_offset is None:
                entry.txn_first_offset = batch.base_offset
                self.ongoing[batch.base_offset] = producer_id

    def marker_appended(
        self, batch: BatchView, *, commit: bool, coordinator_epoch: int, now_ms: int | None = None
    ) -> CompletedTransaction | None:
        """The transaction that the marker ended, or None if it had no records in this partition."""
        producer_id = batch.producer_id
        entry = self._marked(batch)
        entry.coordinator_epoch, entry.written_ms = coordinator_epoch, now_ms
        first_offset, entry.txn_first_offset = entry.txn_first_offset, None
        known = self.verifications.get(producer_id)
        # Transactions of version 2 end with a higher epoch, so a verification with the same epoch belongs to the next.
        if known is not None and not (known.supports_epoch_bump and known.epoch == batch.producer_epoch):
            del self.verifications[producer_id]
        if first_offset is None:
            return None
        self.ongoing.pop(first_offset, None)
        completed = CompletedTransaction(producer_id, first_offset, batch.base_offset, not commit)
        self.unreplicated.append(completed)
        return completed

    def emptied_marker_appended(self, batch: BatchView) -> None:
        """Records a marker that compaction emptied because no record of its transaction is left. It still has the
        producer's epoch. It ends no transaction, because nobody knows any more whether it was a commit."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.txn_first_offset is None:
            self._marked(batch)

    def _marked(self, batch: BatchView) -> Producer:
        """The producer of a marker, with the marker's epoch."""
        producer_id = batch.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = Producer(producer_id)
        if batch.producer_epoch != entry.epoch:
            entry.epoch = batch.producer_epoch
            entry.batches.clear()
        entry.last_timestamp_ms = batch.max_timestamp_ms
        return entry

    def stable_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset after `completed`, for the aborted-transaction index."""
        return next(iter(self.ongoing), completed.last_offset + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        first = next(iter(self.ongoing), None)
        for completed in self.unreplicated:
            if first is None or completed.first_offset < first:
                first = completed.first_offset
        return first

    def high_watermark_advanced(self, high_watermark: int) -> bool:
        """Whether the marker of a transaction is below the high watermark now, and was not before."""
        known = len(self.unreplicated)
        if known:
            self.unreplicated = [txn for txn in self.unreplicated if txn.last_offset >= high_watermark]
        return len(self.unreplicated) < known

    def log_start_advanced(self, log_start_offset: int) -> None:
        self.unreplicated = [txn for txn in self.unreplicated if txn.last_offset >= log_start_offset]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers that were idle for `expiration_ms` and have no open transaction. Returns their number.

        The time of the write counts and not that of the records: a producer may copy records of last year.
        """
        gone = []
        for producer_id, entry in self.entries.items():
            if entry.written_ms is None:
                entry.written_ms = now_ms
            elif entry.txn_first_offset is None and now_ms - entry.written_ms >= expiration_ms:
                gone.append(producer_id)
        for producer_id in gone:
            del self.entries[producer_id]
        stale = [pid for pid, known in self.verifications.items() if now_ms - known.created_ms >= expiration_ms]
        for producer_id in stale:
            del self.verifications[producer_id]
        return len(gone)

    def load(self, loaded: Iterable[Producer]) -> None:
        self.entries = {entry.producer_id: entry for entry in loaded}
        opened = [(e.txn_first_offset, e.producer_id) for e in self.entries.values() if e.txn_first_offset is not None]
        self.ongoing = dict(sorted(opened))
        self.unreplicated = []

    def clear(self) -> None:
        self.load(())
        self.verifications = {}


def _continues(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == MAX_SEQUENCE)


def _out_of_order(batch: BatchView, expected: int) -> Refused:
    return Refused(
        ErrorCode.out_of_order_sequence_number,
        f"producer {batch.producer_id}, epoch {batch.producer_epoch}: sequence {batch.base_sequence}, not {expected}",
    )
