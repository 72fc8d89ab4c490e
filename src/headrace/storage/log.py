"""The log of one partition: segments in order, and what is known about the records in them.

    log start ────── last stable ────── high watermark ────── log end
    |  readable by all: committed  |  uncommitted only to followers |

    append  validate → check the producer → set offsets → one write → note hints, epochs, producers
    read    find segment and batch → (file, position, length), never the bytes themselves

One owner: the event loop calls everything; `flush` may run in a thread (it takes the tuple of segments as it is, fsyncs
descriptors and moves the recovery point). Segment tuples are replaced, never changed.

Invariants (asserted): log start ≤ last stable ≤ high watermark ≤ log end; every segment's base is above the one before.
Mirrors Kafka's UnifiedLog; opening and repair are in `recovery`, lookups by time in `time_lookup`.
"""

from __future__ import annotations

import contextlib
import uuid
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from headrace.kernel.errors import OffsetOutOfRange, StorageFault
from headrace.records.batch import BatchView, TimestampType
from headrace.storage.core.retention import Verdict
from headrace.storage.dirs.checkpoints import LEADER_EPOCH_FILE, write_topic_id
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.dirs.new_log_files import make_files
from headrace.storage.files import is_no_space, tolerated_no_space
from headrace.storage.flush import flush
from headrace.storage.follower_append import append_leaders_batches, leaders_batches
from headrace.storage.leader_append import Appended, AppendOrigin, admitted_batch, answer_for_producer
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import ProducerState
from headrace.storage.roll import roll
from headrace.storage.segment.batch_scan import Slice
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.time_lookup import TimestampOffset, first_at_or_after, newest
from headrace.storage.segment.txn_index import AbortedTransaction, aborted_between
from headrace.storage.truncation import cut_all, cut_end, cut_start

__all__ = ["AppendOrigin", "Appended", "Log", "Slice", "TimestampOffset"]

# The reason that a deleted log gives to whoever still holds it.
DELETED: Final = "deleted"


class Log:
    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: uuid.UUID | None = None,
        trash: DelayedDeletions | None = None,
        on_disk_fault: Callable[[OSError], None] | None = None,
    ) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.producers = ProducerState(directory)
        self.leader_epochs = LeaderEpochs(directory / LEADER_EPOCH_FILE, lambda: self._next_offset)
        self.trash = trash if trash is not None else DelayedDeletions()
        self.offline_reason: str | None = None
        self.segments: tuple[Segment, ...] = ()
        self.recovery_point = 0
        # When the shell's flush timer last came by, for flush.ms.
        self.last_flush_ms = 0
        # Counts cuts at the end, so that a flush in a thread notices one; and whether new files await a directory sync.
        self.cuts = 0
        self.names_changed = True
        # A new log that has no files yet; see `promises`.
        self.is_promised = False
        self._on_disk_fault = on_disk_fault
        self._bases: list[int] = []
        self._active: Segment
        self._next_offset = 0
        self._log_start_offset = 0
        self._high_watermark = 0

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition} [{self._log_start_offset}, {self._next_offset}))"

    # --- facts ---------------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._next_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return self._high_watermark
        first_unstable = producers.first_unstable_offset
        assert first_unstable is not None
        return min(max(first_unstable, self._log_start_offset), self._high_watermark)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def active_segment(self) -> Segment:
        return self._active

    @property
    def keeps_append_time(self) -> bool:
        return self.config.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    @property
    def is_deleted(self) -> bool:
        return self.offline_reason == DELETED

    @property
    def unflushed_messages(self) -> int:
        return self._next_offset - self.recovery_point

    # --- appending -----------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        data: memoryview | bytearray | bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: object | None = None,
        verify: bool = False,
        transaction_version: int = 0,
    ) -> Appended:
        """Validates one batch, gives it the next offsets in place and writes it.

        With `verify` a transactional batch must either continue a transaction that is open here or bring the guard that
        `producers.start_verification` gave (KIP-890). A batch that is already in the log is answered, not written.
        """
        if self.offline_reason is not None:
            raise self._offline_fault()
        if self.is_promised:
            self.make_files()
        from_client = origin is AppendOrigin.CLIENT
        batch = admitted_batch(self, data, now_ms, from_client=from_client)
        if batch.producer_id >= 0:
            answer = answer_for_producer(
                self,
                batch,
                from_client=from_client,
                verification=verification,
                verify=verify,
                transaction_version=transaction_version,
            )
            if answer is not None:
                return answer
        first_offset = self._next_offset
        last_offset = first_offset + batch.last_offset_delta
        timestamp_ms = batch.max_timestamp_ms
        batch.patch_place(first_offset, leader_epoch)
        segment = self._active
        try:
            if leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, first_offset)
            if segment.should_roll(len(batch.buffer), last_offset, timestamp_ms, now_ms, self.config):
                segment = self.roll(first_offset, now_ms=now_ms)
            segment.append(batch.buffer, first_offset, last_offset, timestamp_ms)
            self._next_offset = last_offset + 1
            if batch.producer_id >= 0:
                self._note_producer(batch)
        except OSError as error:
            raise self.disk_fault(error) from error
        return Appended(first_offset, last_offset, now_ms if self.keeps_append_time else -1, self._log_start_offset)

    def append_as_follower(self, data: memoryview | bytes, *, now_ms: int | None = None) -> Appended:
        """Writes batches as the leader wrote them. A torn batch at the end of a fetch is left for the next one."""
        if self.offline_reason is not None:
            raise self._offline_fault()
        batches, length = leaders_batches(self, memoryview(data))
        if not batches:
            return Appended(-1, -1, -1, self._log_start_offset)
        self.make_files()
        newest_ms = max(batch.max_timestamp_ms for batch in batches)
        try:
            append_leaders_batches(self, memoryview(data)[:length], batches, newest_ms if now_ms is None else now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error
        return Appended(batches[0].base_offset, batches[-1].last_offset, -1, self._log_start_offset)

    def written(self, batches: list[BatchView]) -> None:
        """The active segment holds these batches now."""
        self._next_offset = batches[-1].next_offset
        for batch in batches:
            if batch.producer_id >= 0:
                self._note_producer(batch)

    def _note_producer(self, batch: BatchView) -> None:
        if not batch.is_control:
            self.producers.appended(batch)
            return
        completed = self.producers.replay(batch)
        if completed is not None and completed.aborted:
            self._active.txn_index.append(self.producers.aborted(completed))

    # --- disk trouble --------------------------------------------------------------------------------------------

    def _offline_fault(self) -> StorageFault:
        return StorageFault(f"{self.topic}-{self.partition} is offline: {self.offline_reason}")

    def disk_fault(self, error: OSError) -> StorageFault:
        """No space is answered and passes; any other error of the disk takes the directory offline."""
        if is_no_space(error):
            return StorageFault(
                f"{self.topic}-{self.partition}: no space left on {self.directory.parent}, free some to go on"
            )
        if self.offline_reason is None:
            self.offline_reason = f"{error.strerror} on {error.filename or self.directory}"
            if self._on_disk_fault is not None:
                self._on_disk_fault(error)
        return self._offline_fault()

    # --- reading -------------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, min_one_batch: bool = True
    ) -> Slice | None:
        """Whole batches from `offset` on, all below `up_to`; None when there are none yet.

        The first batch may begin below `offset`. With `min_one_batch` it comes even when it is larger than `max_bytes`,
        so that a reader with a small buffer gets on.
        """
        if self.offline_reason is not None:
            raise self._offline_fault()
        end = self._next_offset
        if offset < self._log_start_offset or offset > end:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic}-{self.partition}: the log holds {self._log_start_offset} to {end}"
            )
        bound = end if up_to is None or up_to > end else up_to
        if offset >= bound:
            return None
        segments = self.segments
        at = len(segments) - 1 if offset >= self._active.base_offset else bisect_right(self._bases, offset) - 1
        try:
            while at < len(segments):
                last = at == len(segments) - 1
                limit = bound if bound < (end if last else self._bases[at + 1]) else None
                found = segments[at].read(offset, max_bytes, limit, min_one_batch=min_one_batch)
                if found is not None or limit is not None:
                    return found
                # Compaction may have emptied the rest of this segment.
                at += 1
        except OSError as error:
            raise self.disk_fault(error) from error
        return None

    def aborted_transactions(self, start: int, end_exclusive: int) -> list[AbortedTransaction]:
        """Transactions to be skipped by a reader of committed records in that range."""
        return aborted_between(self.segments[max(0, bisect_right(self._bases, start) - 1) :], start, end_exclusive)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after `timestamp_ms`, in order of offsets."""
        if self.is_promised:
            return None
        return first_at_or_after(self.segments, timestamp_ms, self._log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The newest record by timestamp; the first of several."""
        return newest(self.segments, self._log_start_offset)

    # --- moving the marks ----------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Never back, never past the end."""
        offset = min(offset, self._next_offset)
        if offset > self._high_watermark:
            self._high_watermark = offset
            if self.producers.unreplicated:
                self.producers.high_watermark_advanced(offset)

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers at once; their segments go at the next retention round."""
        if offset > self._high_watermark:
            raise OffsetOutOfRange(
                f"cannot delete {self.topic}-{self.partition} up to {offset}: high watermark is {self._high_watermark}"
            )
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producers.log_start_advanced(offset)

    def make_files(self) -> None:
        """The files of a log that began in memory."""
        if self.is_promised:
            try:
                make_files(self)
            except OSError as error:
                raise self.disk_fault(error) from error

    def roll(self, base_offset: int | None = None, *, now_ms: int | None = None) -> Segment:
        """Ends the active segment and begins one at `base_offset` (the log end unless a leader left a gap)."""
        self.make_files()
        return roll(self, max(base_offset or 0, self._next_offset), now_ms)

    def save_epochs(self) -> bool:
        """Writes down what began since the last time; whether there was anything."""
        if self.is_promised or self.offline_reason is not None or not self.leader_epochs.is_due:
            return False
        try:
            with tolerated_no_space():
                self.leader_epochs.save_if_changed()
        except OSError as error:
            raise self.disk_fault(error) from error
        return True

    def flush(self) -> None:
        """Everything appended so far reaches the disk; the recovery point follows. May run in a thread."""
        try:
            flush(self)
        except OSError as error:
            raise self.disk_fault(error) from error

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> None:
        """Cuts records from `offset` on (and the batch that holds it)."""
        try:
            cut_end(self, offset, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = 0) -> None:
        """An empty log that begins at `offset`: for a follower whose leader no longer has what it lacks."""
        self.make_files()
        try:
            cut_all(self, offset, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def delete_old_segments(self, now_ms: int) -> Verdict:
        """One round of retention; says how many segments went and why."""
        if self.is_promised:
            return Verdict(0, "")
        try:
            return cut_start(self, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        if self.topic_id != topic_id:
            self.make_files()
            write_topic_id(self.directory, topic_id)
            self.topic_id = topic_id

    def close(self, *, clean: bool = True) -> None:
        """Cleanly: everything sealed, synced and snapshotted, so that the next start need not look. Else as a crash
        leaves it.
        """
        if clean:
            with contextlib.suppress(StorageFault):  # what was never written to loses nothing by having no files
                self.make_files()
        if clean and self.offline_reason is None and not self.is_promised:
            try:
                self._active.seal()
                self.save_epochs()
                self.flush()
                if self._next_offset > self._log_start_offset or self.producers.entries:
                    self.producers.take_snapshot(self._next_offset, durable=True)
            except OSError as error:
                raise self.disk_fault(error) from error
        for segment in self.segments:
            segment.close()

    def set_marks(self, *, log_start: int, end: int, high_watermark: int, recovery_point: int) -> None:
        """Where everything stands after opening or cutting."""
        assert log_start <= end, f"{self!r} would start at {log_start} and end at {end}"
        self._log_start_offset, self._next_offset = log_start, end
        self._high_watermark = min(max(high_watermark, log_start), end)
        self.recovery_point = min(recovery_point, end)
        self.producers.high_watermark_advanced(self._high_watermark)

    def set_segments(self, segments: tuple[Segment, ...]) -> None:
        assert all(one.base_offset < two.base_offset for one, two in pairwise(segments))
        self._bases = [segment.base_offset for segment in segments]
        self.segments = segments
        self._active = segments[-1]
