"""The log of one partition: its segments, leader epochs, producer state and offsets.

    log start ────── last stable ────── high watermark ────── log end
    |  readable by all: committed  |  uncommitted only to followers |

    append  validate → check the producer → set offsets → one write → update indexes, epochs, producers
    read    find segment and batch → (file, position, length), never the bytes themselves

A log composes `Segments` (the files), `LeaderEpochs` and `ProducerState`, and owns the offsets that bound reads. After
every operation that shortens a log, the state in memory equals the state that a start would load from the shortened
files: epochs and producers match the data, and no offset is outside the log.

One owner: the event loop calls everything; only `flush` may run in a thread.

Invariant (asserted): log start ≤ last stable ≤ high watermark ≤ log end.
Mirrors Kafka's UnifiedLog; opening and repair are in `recovery`, lookups by time in `time_lookup`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.kernel.errors import OffsetOutOfRange, StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import BatchView, TimestampType
from headrace.storage.core.retention import Verdict
from headrace.storage.dirs.checkpoints import write_topic_id
from headrace.storage.dirs.new_log_files import make_directory
from headrace.storage.disk_faults import DELETED, DiskFaults
from headrace.storage.files import is_no_space, sync_directory, tolerated_no_space
from headrace.storage.follower_append import leaders_batches
from headrace.storage.leader_append import Appended, AppendOrigin, admitted_batch, repeated_batch
from headrace.storage.log_config import LogConfig
from headrace.storage.log_contents import LogContents
from headrace.storage.segment.batch_scan import Slice
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.time_lookup import TimestampOffset, first_at_or_after, newest
from headrace.storage.segment.txn_index import AbortedTransaction

__all__ = ["AppendOrigin", "Appended", "Log", "Slice", "TimestampOffset"]


class Log:
    def __init__(
        self,
        partition: TopicPartition,
        config: LogConfig,
        contents: LogContents,
        *,
        topic_id: uuid.UUID | None = None,
        on_disk_fault: Callable[[OSError], None] | None = None,
        before_files: Callable[[], None] = lambda: None,
        before_cut: Callable[[int], None] = lambda end: None,
    ) -> None:
        """`before_files` runs before the files of a log that began in memory are created, and `before_cut` before
        records from an offset on are removed. Both may raise OSError."""
        self.name = partition
        self.topic, self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.directory = contents.segments.directory
        self.segments = contents.segments
        self.producers = contents.producers
        self.leader_epochs = contents.leader_epochs
        # When the broker's flush timer last flushed this log, for flush.ms. A new log is not due before that time.
        self.last_flush_ms = contents.segments.active.created_ms
        self._disk = DiskFaults(partition, self.directory, on_disk_fault)
        self._before_files = before_files
        self._before_cut = before_cut
        self._next_offset = 0
        self._log_start_offset = 0
        self._high_watermark = 0
        self._set_offsets(contents.log_start_offset, contents.log_end_offset, contents.high_watermark)

    def __repr__(self) -> str:
        return f"Log({self.name} [{self._log_start_offset}, {self._next_offset}))"

    # Facts

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
        return self.segments.size_bytes

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    @property
    def recovery_point(self) -> int:
        """Records below this offset are synced to the disk."""
        return self.segments.recovery_point

    @property
    def keeps_append_time(self) -> bool:
        return self.config.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    @property
    def offline_reason(self) -> str | None:
        """Why the log is offline; None while it is online."""
        return self._disk.offline_reason

    def take_offline(self, reason: str) -> None:
        """Makes every operation fail with `reason`. The first reason stays."""
        self._disk.offline_reason = self._disk.offline_reason or reason

    def mark_deleted(self) -> None:
        self._disk.offline_reason = DELETED

    @property
    def is_deleted(self) -> bool:
        return self._disk.offline_reason == DELETED

    # Appending

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

        With `verify` a transactional batch must continue a transaction that is open here or present the guard of
        `producers.start_verification` (KIP-890). For a duplicate batch it returns the first append and writes nothing.
        """
        if self._disk.offline_reason is not None:
            raise self._disk.offline()
        segments, config = self.segments, self.config
        if not segments.has_files:
            self.make_files()
        from_client = origin is AppendOrigin.CLIENT
        batch = admitted_batch(self.name, config, data, now_ms, from_client=from_client)
        if batch.producer_id >= 0:
            known = repeated_batch(
                self.name,
                self.producers,
                batch,
                from_client=from_client,
                verification=verification,
                verify=verify,
                transaction_version=transaction_version,
            )
            if known is not None:
                # Kafka answers with the time of the first append for both timestamp types.
                arrived_ms = known.timestamp_ms
                return Appended(known.first_offset, known.last_offset, arrived_ms, self._log_start_offset, True)
        first_offset = self._next_offset
        last_offset = first_offset + batch.last_offset_delta
        timestamp_ms = batch.max_timestamp_ms
        batch.patch_place(first_offset, leader_epoch)
        segment = segments.active
        try:
            if leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, first_offset)
            if segment.should_roll(len(batch.buffer), last_offset, timestamp_ms, now_ms, config):
                segment = self.roll(first_offset, now_ms=now_ms)
            segment.append(batch.buffer, first_offset, last_offset, timestamp_ms)
            self._next_offset = last_offset + 1
            if batch.producer_id >= 0:
                self._note_producer(batch, now_ms)
        except OSError as error:
            raise self._disk.fault(error) from error
        return Appended(first_offset, last_offset, now_ms if self.keeps_append_time else -1, self._log_start_offset)

    def append_as_follower(self, data: memoryview | bytes, *, now_ms: int | None = None) -> Appended:
        """Writes batches unchanged. Drops an incomplete batch at the end; the next fetch gets it again."""
        if self._disk.offline_reason is not None:
            raise self._disk.offline()
        batches, length = leaders_batches(self.name, self._log_start_offset, self._next_offset, memoryview(data))
        if not batches:
            return Appended(-1, -1, -1, self._log_start_offset)
        self.make_files()
        whole = memoryview(data)[:length]
        now_ms = max(batch.max_timestamp_ms for batch in batches) if now_ms is None else now_ms
        begins_inside = batches[0].base_offset < self._log_start_offset
        try:
            if begins_inside:
                with self._being_cut(batches[0].base_offset):
                    self._empty_files(batches[0].base_offset, now_ms)
                self.make_files()
            for batch in batches:
                if batch.partition_leader_epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if len(batches) > 1 and self._must_append_one_by_one(whole, batches, now_ms):
                for batch in batches:
                    self._write(batch.data, [batch], now_ms)
            else:
                self._write(whole, batches, now_ms)
            if begins_inside:
                self.leader_epochs.truncate_from_start(self._log_start_offset)
        except OSError as error:
            raise self._disk.fault(error) from error
        return Appended(batches[0].base_offset, batches[-1].last_offset, -1, self._log_start_offset)

    def _must_append_one_by_one(self, data: memoryview, batches: list[BatchView], now_ms: int) -> bool:
        """Whether to append batches one by one, so that segments keep their size, instead of with one write."""
        return len(data) > self.config.segment_bytes or self.segments.would_roll(data, batches, now_ms, self.config)

    def _write(self, data: memoryview, batches: list[BatchView], now_ms: int) -> None:
        if self.segments.would_roll(data, batches, now_ms, self.config):
            self.roll(batches[0].base_offset, now_ms=now_ms)
        self.segments.active.append_many(data, batches)
        self._next_offset = batches[-1].next_offset
        for batch in batches:
            if batch.producer_id >= 0:
                self._note_producer(batch, None)

    def _note_producer(self, batch: BatchView, now_ms: int | None) -> None:
        try:
            if not batch.is_control:
                self.producers.appended(batch, now_ms)
                return
            completed = self.producers.replay(batch, now_ms)
            if completed is not None and completed.aborted:
                self.segments.active.txn_index.append(self.producers.aborted(completed))
        except OSError:
            raise
        except Exception as bug:  # the batch is in the log: no later one may follow without its producer
            self._disk.inconsistent(bug)
            raise

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, min_one_batch: bool = True
    ) -> Slice | None:
        """Whole batches from `offset` on, all below `up_to`; None if there are none yet.

        The first batch may begin below `offset`. With `min_one_batch` it is returned even if it is larger than
        `max_bytes`, so that a reader with a small buffer makes progress.
        """
        if self._disk.offline_reason is not None:
            raise self._disk.offline()
        end = self._next_offset
        if offset < self._log_start_offset or offset > end:
            raise OffsetOutOfRange(f"offset {offset} of {self.name}: the log holds {self._log_start_offset} to {end}")
        bound = end if up_to is None or up_to > end else up_to
        if offset >= bound:
            return None
        try:
            return self.segments.read(offset, max_bytes, bound, end, min_one_batch=min_one_batch)
        except OSError as error:
            raise self._disk.fault(error) from error

    def has_more_behind(self, found: Slice, up_to: int) -> bool:
        """Whether there are batches below `up_to` behind those that a read found. Also true at the end of a segment
        that is not the last one, without a look at the next one."""
        try:
            return self.segments.has_more_behind(found, up_to, self._next_offset)
        except OSError as error:
            raise self._disk.fault(error) from error

    def read_across(self, offset: int, max_bytes: int) -> list[Slice]:
        """Whole batches from `offset` to the end, also of several segments; at least one batch if there is one."""
        if self._disk.offline_reason is not None:
            raise self._disk.offline()
        try:
            return self.segments.read_across(offset, max_bytes) if offset < self._next_offset else []
        except OSError as error:
            raise self._disk.fault(error) from error

    def aborted_transactions(self, start: int, end_exclusive: int) -> list[AbortedTransaction]:
        """Aborted transactions in that range, which a read_committed consumer skips."""
        return self.segments.aborted_transactions(start, end_exclusive)

    def aborted_transactions_in(self, found: Slice, offset: int, up_to: int) -> list[AbortedTransaction]:
        """Those that matter for what `read` found from `offset` to `up_to`."""
        try:
            return self.segments.aborted_transactions_in(found, offset, up_to)
        except OSError as error:
            raise self._disk.fault(error) from error

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after `timestamp_ms`, in order of offsets."""
        if not self.segments.has_files:
            return None
        return first_at_or_after(self.segments.all, timestamp_ms, self._log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The record with the highest timestamp; the first if there are several."""
        return newest(self.segments.all, self._log_start_offset)

    # Moving offsets

    def advance_high_watermark(self, offset: int) -> bool:
        """Moves the high watermark. It never moves back or past the log end. Returns whether a transaction ended: then
        the last stable offset may pass records that were below the high watermark already.
        """
        offset = min(offset, self._next_offset)
        if offset > self._high_watermark:
            self._high_watermark = offset
            if self.producers.unreplicated:
                return self.producers.high_watermark_advanced(offset)
        return False

    def advance_log_start(self, offset: int) -> None:
        """Hides records below `offset` from readers at once. The next retention round deletes their segments."""
        if offset > self._high_watermark:
            raise OffsetOutOfRange(
                f"cannot delete {self.name} up to {offset}: high watermark is {self._high_watermark}"
            )
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            # Deleting records is what frees a full disk. `save_epochs` writes the file again.
            with self._disk.raised(), tolerated_no_space():
                self.leader_epochs.truncate_from_start(offset)
            self.producers.log_start_advanced(offset)

    def make_files(self) -> None:
        """Creates the files of a log that is in memory only."""
        if not self.segments.has_files:
            with self._disk.raised():
                self._before_files()
                make_directory(self.directory, self.topic_id)
                self.segments.make_files(self.config)

    def roll(self, base_offset: int | None = None, *, now_ms: int | None = None) -> Segment:
        """Seals the active segment and begins one at `base_offset` (default: the log end)."""
        self.make_files()
        base_offset = max(base_offset or 0, self._next_offset)
        if self.segments.is_new_at(base_offset):
            return self.segments.active
        self.producers.take_snapshot(base_offset)
        return self.segments.roll(base_offset, self.config, now_ms)

    def save_epochs(self) -> bool:
        """Writes new epochs to the file. Returns whether there were any."""
        if not self.leader_epochs.is_due(self._next_offset):
            return False
        if not self.segments.has_files or self.offline_reason is not None:
            return False
        with self._disk.raised(), tolerated_no_space():
            self.leader_epochs.save_with_records(self._next_offset)
        return True

    def flush(self) -> None:
        """Syncs everything appended so far and moves the recovery point. May run in a thread."""
        with self._disk.raised():
            self.segments.flush(self._next_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Flushes if due by flush.messages or flush.ms, or if a segment was rolled. May run in a thread."""
        unflushed = self._next_offset - self.segments.recovery_point
        rolled = self.segments.active.base_offset > self.segments.recovery_point
        aged = now_ms - self.last_flush_ms >= self.config.flush_ms
        if unflushed > 0 and (rolled or unflushed >= self.config.flush_messages or aged):
            try:
                self.flush()
            finally:
                self.last_flush_ms = now_ms

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> None:
        """Removes all records from `offset` on, including the whole batch that contains `offset`."""
        if offset >= self._next_offset:
            return
        if offset <= self.segments.base_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return
        self.make_files()
        with self._disk.raised(), self._being_cut(self.segments.end_of_cut(offset)):
            end = self.segments.cut_end(offset, self.config, now_ms)
            log_start = min(self._log_start_offset, end)
            with tolerated_no_space():  # the records are gone, and `save_epochs` tries again
                self.leader_epochs.truncate_from_end(end)
            self.producers.rebuild(self.segments.all, end)
            self._set_offsets(log_start, end, self._high_watermark)
            self.segments.sync_cut()

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = 0) -> None:
        """Empties the log and starts it at `offset`, for a follower whose leader has deleted the next records."""
        self.make_files()
        with self._disk.raised(), self._being_cut(offset):
            self._empty_files(offset, now_ms)
            self._set_offsets(offset, offset, offset)
            sync_directory(self.directory)

    @contextlib.contextmanager
    def _being_cut(self, end: int) -> Iterator[None]:
        with self.segments.being_cut(end):
            self._before_cut(end)
            yield

    def _empty_files(self, offset: int, now_ms: int) -> None:
        # The producers first: after a crash, snapshots of the old records must not belong to the new log.
        self.producers.start_over()
        self.segments.cut_all(offset, self.config, now_ms)
        with tolerated_no_space():
            self.leader_epochs.clear()

    def delete_old_segments(self, now_ms: int) -> Verdict:
        """One round of retention. Returns how many segments were deleted and why."""
        if not self.segments.has_files:
            return Verdict(0, "")
        segments, marks = self.segments, (self._log_start_offset, self._high_watermark, self._next_offset)
        with self._disk.raised():
            verdict = segments.expired(self.config, now_ms, *marks)
            if verdict.count:
                if verdict.count == len(segments.all):
                    try:
                        self.roll(now_ms=now_ms)
                    except OSError as error:
                        # A full disk has no space for a new segment until the others are deleted.
                        if not is_no_space(error) or verdict.count == 1:
                            raise
                        verdict = Verdict(verdict.count - 1, verdict.reason)
                segments.cut_start(verdict.count, now_ms + self.config.file_delete_delay_ms)
                self.advance_log_start(segments.base_offset)
                self.producers.drop_snapshots(keep=segments.base_offsets)
            return verdict

    # Moving to another directory

    def skip_to(self, offset: int, *, now_ms: int) -> None:
        """Ends the log at `offset`: compaction left no batch between the present end and there."""
        with self._disk.raised():
            self.roll(offset, now_ms=now_ms)
        self._set_offsets(self._log_start_offset, offset, self._high_watermark)

    def prepare_to_replace(self, current: Log) -> None:
        """Writes to this log's directory what only `current` knows: producers whose records are deleted, and a leader
        epoch without records. Afterwards as much is synced here as there."""
        with self._disk.raised():
            self.leader_epochs.adopt(current.leader_epochs)
            current.producers.copy_snapshot(self.directory, self._next_offset)
        if self.recovery_point < (self._next_offset if current.config.flush_before_ack else current.recovery_point):
            self.flush()

    def replace(self, current: Log, directory: Path) -> None:
        """Takes the place of `current`, which has the same records. This log's directory was renamed to `directory`.
        Changes memory only."""
        self.move_to(directory)
        self.config, self.last_flush_ms = current.config, current.last_flush_ms
        self.producers = current.producers
        self.producers.directory, self.producers.snapshot_offset = directory, self._next_offset
        self._set_offsets(current.log_start_offset, self._next_offset, current.high_watermark)
        # A writer that waits for a flush of `current` finds that its records are on the disk.
        current.segments.recovery_point = max(current.recovery_point, self.recovery_point)

    def move_to(self, directory: Path) -> None:
        """The directory was renamed to `directory`."""
        self.directory = directory
        self.segments.move_to(directory)
        self.leader_epochs.path = directory / self.leader_epochs.path.name
        self.producers.directory = directory
        self._disk.directory = directory

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        if self.topic_id != topic_id:
            self.make_files()
            write_topic_id(self.directory, topic_id)
            self.topic_id = topic_id

    def close(self, *, clean: bool = True) -> None:
        """With `clean`, seals and syncs everything and writes a snapshot, so that the next start need not check the
        log. Otherwise leaves the files as a crash would.
        """
        if clean:
            with contextlib.suppress(StorageFault):  # an empty log needs no files
                self.make_files()
        if clean and self.offline_reason is None and self.segments.has_files:
            with self._disk.raised():
                self.segments.active.seal()
                self.save_epochs()
                self.flush()
                if self._next_offset > self._log_start_offset or self.producers.entries:
                    self.producers.take_snapshot(self._next_offset, durable=True)
        self.segments.close()

    def _set_offsets(self, log_start: int, end: int, high_watermark: int) -> None:
        """Sets all offsets, after opening or truncation."""
        assert log_start <= end, f"{self!r} would start at {log_start} and end at {end}"
        self._log_start_offset, self._next_offset = log_start, end
        self._high_watermark = min(max(high_watermark, log_start), end)
        self.producers.high_watermark_advanced(self._high_watermark)
