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

import uuid
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from headrace.kernel.errors import ErrorCode, OffsetOutOfRange, Refused, StorageFault
from headrace.records.batch import BatchView, TimestampType
from headrace.records.control import read_control
from headrace.records.reader import read_records
from headrace.records.validation import admit, single_batch
from headrace.storage.checkpoints import LEADER_EPOCH_FILE, write_topic_id
from headrace.storage.core.retention import Verdict
from headrace.storage.cutting import cut_all, cut_end, cut_start
from headrace.storage.files import is_no_space
from headrace.storage.following import append_leaders_batches, leaders_batches
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import ProducerState
from headrace.storage.segment import Segment, Slice
from headrace.storage.time_lookup import TimestampOffset, first_at_or_after, newest
from headrace.storage.trash import Trash
from headrace.storage.txn_index import AbortedTransaction

__all__ = ["AppendOrigin", "Appended", "Log", "Slice", "TimestampOffset"]


class AppendOrigin(Enum):
    CLIENT = "client"
    REPLICATION = "replication"
    COORDINATOR = "coordinator"


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Log:
    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: uuid.UUID | None = None,
        trash: Trash | None = None,
        on_disk_fault: Callable[[OSError], None] | None = None,
    ) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.producers = ProducerState(directory)
        self.leader_epochs = LeaderEpochs(directory / LEADER_EPOCH_FILE, lambda: self._next_offset)
        self.trash = trash if trash is not None else Trash()
        self.offline_reason: str | None = None
        self.segments: tuple[Segment, ...] = ()
        self.recovery_point = 0
        # Two counters that the shell's flush timer compares with flush.messages and flush.ms.
        self.last_flush_ms = 0
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
        view = data if type(data) is memoryview else memoryview(data)
        if view.readonly:
            view = memoryview(bytearray(view))
        config = self.config
        if len(view) > config.max_message_bytes:
            raise self._too_large(len(view))
        from_client = origin is AppendOrigin.CLIENT
        batch = admit(single_batch(view), config.rules, now_ms, from_client=from_client)
        size = batch.size_bytes
        if size > config.segment_bytes:
            raise Refused(
                ErrorCode.record_list_too_large,
                f"{self.topic}-{self.partition}: a batch of {size} bytes, segment.bytes is {config.segment_bytes}",
            )
        append_time_ms = now_ms if config.rules.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        if batch.producer_id >= 0:
            if batch.is_control:
                marker = read_control(read_records(batch)[0])
                self.producers.check_marker(
                    batch.producer_id, batch.producer_epoch, marker.coordinator_epoch, transaction_version
                )
            elif from_client:
                duplicate = self.producers.check(batch)
                if duplicate is not None:
                    original_ms = duplicate.timestamp_ms if append_time_ms >= 0 else -1
                    return Appended(
                        duplicate.first_offset, duplicate.last_offset, original_ms, self._log_start_offset, True
                    )
                if verify and batch.is_transactional:
                    self._require_verified(batch, verification)
        first_offset = self._next_offset
        batch.patch_base_offset(first_offset)
        batch.patch_leader_epoch(leader_epoch)
        try:
            if leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, first_offset)
            last_offset = first_offset + batch.last_offset_delta
            timestamp_ms = batch.max_timestamp_ms
            segment = self._active
            if segment.should_roll(size, last_offset, timestamp_ms, now_ms, config):
                segment = self.roll(first_offset, now_ms=now_ms)
            segment.append(batch.buffer, first_offset, last_offset, timestamp_ms)
            self._next_offset = last_offset + 1
            if batch.producer_id >= 0:
                self._note_producer(batch)
        except OSError as error:
            raise self.disk_fault(error) from error
        return Appended(first_offset, last_offset, append_time_ms, self._log_start_offset)

    def append_as_follower(self, data: memoryview | bytes, *, now_ms: int | None = None) -> Appended:
        """Writes batches as the leader wrote them. A torn batch at the end of a fetch is left for the next one."""
        if self.offline_reason is not None:
            raise self._offline_fault()
        batches, length = leaders_batches(self, memoryview(data))
        if not batches:
            return Appended(-1, -1, -1, self._log_start_offset)
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

    def _require_verified(self, batch: BatchView, verification: object | None) -> None:
        if self.producers.has_ongoing(batch.producer_id, batch.producer_epoch):
            return
        if not self.producers.verified(batch.producer_id, verification):
            raise Refused(
                ErrorCode.invalid_txn_state,
                f"producer {batch.producer_id} has no transaction open on {self.topic}-{self.partition}",
            )

    def _too_large(self, size: int) -> Refused:
        return Refused(
            ErrorCode.message_too_large,
            f"{self.topic}-{self.partition}: a batch of {size} bytes, max.message.bytes is {self.config.max_message_bytes}",
        )

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
        found: list[AbortedTransaction] = []
        for segment in self.segments[max(0, bisect_right(self._bases, start) - 1) :]:
            overlapping, complete = segment.txn_index.overlapping(start, end_exclusive)
            found += overlapping
            if complete:
                break
        return found

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after `timestamp_ms`, in order of offsets."""
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
                f"{self.topic}-{self.partition}: cannot delete records before {offset}, the high watermark is {self._high_watermark}"
            )
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producers.log_start_advanced(offset)

    def roll(self, base_offset: int | None = None, *, now_ms: int | None = None) -> Segment:
        """Ends the active segment and begins one at `base_offset` (the log end unless a leader left a gap)."""
        old = self._active
        base = self._next_offset if base_offset is None else max(base_offset, self._next_offset)
        if old.size_bytes == 0 and old.base_offset == base:
            return old
        created_ms = now_ms if now_ms is not None else max(old.created_ms, old.max_timestamp_ms)
        self.producers.take_snapshot(base)
        old.seal()
        replaced = self.segments
        if old.size_bytes == 0:
            # Nothing was ever written to it, and it must not stand in the way of its successor.
            old.close()
            for path in old.files:
                path.unlink(missing_ok=True)
            replaced = replaced[:-1]
        self.set_segments((*replaced, Segment.create(self.directory, base, self.config, now_ms=created_ms)))
        return self._active

    def flush(self) -> None:
        """Everything appended so far reaches the disk; the recovery point follows. May run in a thread.

        An fsync that failed is never tried again: the kernel may have dropped the pages and would say yes the next time.
        """
        end, segments = self._next_offset, self.segments
        if end <= self.recovery_point:
            return
        try:
            for segment in segments[max(0, bisect_right(self._bases, self.recovery_point) - 1) :]:
                try:
                    segment.sync()
                except FileNotFoundError:
                    # Retention may have taken the segment away while we were at it; then nobody needs it synced.
                    if segment in self.segments:
                        raise
        except OSError as error:
            raise self.disk_fault(error) from error
        self.recovery_point = max(self.recovery_point, end)

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> None:
        """Cuts records from `offset` on (and the batch that holds it)."""
        try:
            cut_end(self, offset, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = 0) -> None:
        """An empty log that begins at `offset`: for a follower whose leader no longer has what it lacks."""
        try:
            cut_all(self, offset, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def delete_old_segments(self, now_ms: int) -> Verdict:
        """One round of retention; says how many segments went and why."""
        try:
            return cut_start(self, now_ms)
        except OSError as error:
            raise self.disk_fault(error) from error

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        if self.topic_id != topic_id:
            write_topic_id(self.directory, topic_id)
            self.topic_id = topic_id

    def close(self, *, clean: bool = True) -> None:
        """Cleanly: everything sealed, synced and snapshotted, so that the next start need not look. Else as a crash leaves it."""
        if clean and self.offline_reason is None:
            try:
                self._active.seal()
                self.flush()
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
        assert all(one.base_offset < two.base_offset for one, two in zip(segments, segments[1:], strict=False))
        self._bases = [segment.base_offset for segment in segments]
        self.segments = segments
        self._active = segments[-1]
