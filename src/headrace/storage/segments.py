"""The segments of one log in order, the active one, and the recovery point.

    cut_start →  sealed │ sealed │ sealed │ active  ← append, roll, cut_end

`Log` decides when to change its segments; this class changes them. It does not know high watermarks, leader epochs and
producers.

The event loop owns it. Only `flush` may run in a thread, while the loop appends, rolls, replaces and deletes segments.
So `all` is a tuple that is replaced and never mutated, and files are renamed after that.

A full disk may fail any step. Steps that can fail therefore come before the first step that cannot be undone. Only the
files of an empty segment may be created after it: without them, the segment stays in memory (`has_files`).
Invariant (asserted): base offsets rise strictly.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import BatchView
from headrace.storage.core.retention import SegmentFacts, Verdict, expired
from headrace.storage.dirs.checkpoints import sync_topic_id
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    sync_directory,
    sync_of_records,
    tolerated_no_space,
)
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.index_check import check_newest
from headrace.storage.segment.batch_scan import Slice
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.txn_index import AbortedTransaction, aborted_between


class Segments:
    """`all` are the segments, `active` is the last of them, `recovery_point` is the offset up to which they are synced.

    `has_files` is False while the only segment is empty and in memory only: the log is new (see `dirs.lazy_logs`), or
    the disk was full when the log was emptied.
    """

    def __init__(
        self,
        directory: Path,
        segments: Sequence[Segment],
        deletions: DelayedDeletions,
        *,
        recovery_point: int = 0,
        has_files: bool = True,
    ) -> None:
        self.directory = directory
        self.deletions = deletions
        self.recovery_point = recovery_point
        self.has_files = has_files
        self.all: tuple[Segment, ...] = ()
        self.active = segments[-1]
        self._bases: list[int] = []
        # Counts truncations at the end, so that a flush or a round of compaction in a thread notices one.
        self.cuts = 0
        self._is_being_cut = False
        # Counts creations of files, so that a flush in a thread notices those that it has not synced.
        self._name_changes = 0
        self._synced_names = -1
        self._replace(segments)

    @classmethod
    def in_memory(cls, directory: Path, config: LogConfig, deletions: DelayedDeletions, *, now_ms: int) -> Segments:
        """One empty segment that has no files yet."""
        return cls(directory, (_segment_in_memory(directory, 0, config, now_ms),), deletions, has_files=False)

    def make_files(self, config: LogConfig) -> None:
        """Creates the files of the segment that was in memory. The directory exists."""
        new = self.active
        self._replace((Segment.create(self.directory, new.base_offset, config, now_ms=new.created_ms),))
        self._name_changes += 1
        self.has_files = True

    def _replace(self, segments: Sequence[Segment]) -> None:
        assert all(one.base_offset < two.base_offset for one, two in pairwise(segments))
        self._bases = [segment.base_offset for segment in segments]
        self.all = tuple(segments)
        self.active = segments[-1]

    @property
    def base_offset(self) -> int:
        """The base offset of the first segment."""
        return self._bases[0]

    @property
    def base_offset_on_disk(self) -> int:
        """Where a start begins the log if the checkpoints do not say it."""
        return self._bases[0] if self.has_files else 0

    @property
    def base_offsets(self) -> set[int]:
        return set(self._bases)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    # Reading

    def read(self, offset: int, max_bytes: int, bound: int, end: int, *, min_one_batch: bool) -> Slice | None:
        """Whole batches from `offset` on, all below `bound`; the log ends at `end`."""
        active = self.active
        if offset >= active.base_offset:
            return active.read(offset, max_bytes, bound if bound < end else None, min_one_batch=min_one_batch)
        segments = self.all
        # The log may start before its first segment: see `roll`, and compaction removes what was between.
        for at in range(max(0, bisect_right(self._bases, offset) - 1), len(segments)):
            segment_end = self._bases[at + 1] if at + 1 < len(segments) else end
            limit = bound if bound < segment_end else None
            found = segments[at].read(offset, max_bytes, limit, min_one_batch=min_one_batch)
            # Compaction may have emptied the rest of this segment; then read the next one.
            if found is not None or limit is not None:
                return found
        return None

    def has_more_behind(self, found: Slice, bound: int, end: int) -> bool:
        active = self.active
        if found.file is not active.file:
            return True
        last = active.position_of(bound) if bound < end else None
        return found.position + found.length < (active.size_bytes if last is None else last)

    def read_across(self, offset: int, max_bytes: int) -> list[Slice]:
        """Like `read` up to the end of the log, but it goes on in the next segment when one ends."""
        slices: list[Slice] = []
        for segment in self.all[max(0, bisect_right(self._bases, offset) - 1) :]:
            found = segment.read(offset, max_bytes, None, min_one_batch=not slices)
            if found is None:
                if slices:
                    break
                continue
            slices.append(found)
            max_bytes -= found.length
            if found.position + found.length < segment.size_bytes or max_bytes <= 0:
                break
        return slices

    def aborted_transactions(self, start: int, end_exclusive: int) -> list[AbortedTransaction]:
        return aborted_between(self.all[max(0, bisect_right(self._bases, start) - 1) :], start, end_exclusive)

    def aborted_transactions_in(self, found: Slice, offset: int, bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of `found` must skip, from `offset` on. Those that begin behind it are
        left out: there may be thousands up to `bound`, and each read would repeat them."""
        segments = self.all[max(0, bisect_right(self._bases, offset) - 1) :]
        if not any(segment.txn_index.entries for segment in segments):
            return []
        return aborted_between(segments, offset, min(bound, _offset_behind(found, segments, bound)))

    # At the end

    def would_roll(self, data: memoryview, batches: Sequence[BatchView], now_ms: int, config: LogConfig) -> bool:
        """Whether one write of these batches would exceed the active segment."""
        newest_ms = max(batch.max_timestamp_ms for batch in batches)
        return self.active.should_roll(len(data), batches[-1].last_offset, newest_ms, now_ms, config)

    def is_new_at(self, base_offset: int) -> bool:
        """Whether the active segment is empty and begins at `base_offset`: a roll would change nothing."""
        return self.active.size_bytes == 0 and self.active.base_offset == base_offset

    def roll(self, base_offset: int, config: LogConfig, now_ms: int | None) -> Segment:
        """Seals the active segment and creates a new active one at `base_offset`."""
        old = self.active
        created_ms = now_ms if now_ms is not None else max(old.created_ms, old.max_timestamp_ms)
        new = Segment.create(self.directory, base_offset, config, now_ms=created_ms)
        try:
            old.seal()
        except OSError:
            new.remove()
            raise
        kept = self.all
        if old.size_bytes == 0:
            # It is empty, and its files must not conflict with those of the new segment.
            old.remove()
            kept = kept[:-1]
        self._replace((*kept, new))
        self._name_changes += 1
        return new

    @contextlib.contextmanager
    def being_cut(self, end: int) -> Iterator[None]:
        """From before a cut at `end` until the log ends there. A flush in a thread must not raise the recovery point if
        it begins or ends meanwhile: the records that it has synced are removed, and the checkpoints may be written at
        any time."""
        self._is_being_cut = True
        self.recovery_point = min(self.recovery_point, end)
        try:
            yield
        finally:
            self.cuts += 1
            self._is_being_cut = False

    def cut_end(self, offset: int, config: LogConfig, now_ms: int) -> int:
        """Removes the batches from the one that contains `offset` on. Returns the offset after the last batch left.

        `offset` is above the first segment's base offset. The caller calls `sync_cut` after it has updated all state.
        """
        end = self.end_of_cut(offset)
        kept = [segment for segment in self.all if segment.base_offset <= offset]
        gone = self.all[len(kept) :]
        active = kept[-1]
        if gone:
            active.activate(config)
            # Replace first: for a flush in a thread, a missing file of the log is a failed disk.
            self._replace(kept)
            # Delete the files at once: a later start must not find them behind a shorter segment.
            for segment in gone:
                segment.remove()
        if active.position_of(offset) is not None:
            active.truncate_to(offset, now_ms=now_ms)
        self.recovery_point = min(self.recovery_point, end)
        return end

    def end_of_cut(self, offset: int) -> int:
        """The offset after the last batch that a cut at `offset` leaves: a cut never splits a batch."""
        last = next(segment for segment in reversed(self.all) if segment.base_offset <= offset)
        position = last.position_of(offset)
        return offset if position is None else min(offset, next(last.places(position)).base_offset)

    def sync_cut(self) -> None:
        with sync_of_records():
            os.fsync(self.active.file.fileno())
        sync_directory(self.directory)

    def cut_all(self, offset: int, config: LogConfig, now_ms: int) -> None:
        """Removes every segment and begins an empty one at `offset`, without files if the disk is full. The caller
        syncs the directory.

        The new files come last. They may have the names of old ones, the old ones may be what fills the disk, and after
        a crash an empty segment behind old records would look like the end of a longer log.
        """
        gone = self.all
        self.has_files = False
        self._replace((_segment_in_memory(self.directory, offset, config, now_ms),))
        for segment in gone:
            segment.remove()
        self.recovery_point = offset
        with tolerated_no_space():
            self.make_files(config)

    # At the start

    def expired(
        self, config: LogConfig, now_ms: int, log_start_offset: int, high_watermark: int, log_end_offset: int
    ) -> Verdict:
        """How many of the first segments retention deletes, and why."""

        def verdict() -> Verdict:
            return expired(
                [SegmentFacts(s.base_offset, s.size_bytes, s.largest_timestamp_ms) for s in self.all],
                now_ms=now_ms,
                log_end_offset=log_end_offset,
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
                retention_ms=config.retention_ms,
                retention_bytes=config.retention_bytes,
                disk_limit_bytes=_percent_of_disk(self.directory, config.retention_disk_percent),
                deletes_old=config.deletes_old,
            )

        found = verdict()
        for segment in self.all[: found.count]:
            # An index is a cache: a wrong timestamp in it must not delete data that is not old.
            check_newest(segment)
        return verdict() if found.count else found

    def cut_start(self, count: int, delete_at_ms: int) -> None:
        """Removes the first `count` segments from the log. Their files are deleted at `delete_at_ms`."""
        gone = self.all[:count]
        self._replace(self.all[count:])
        self._delete_later(gone, delete_at_ms)

    def _delete_later(self, gone: Sequence[Segment], delete_at_ms: int) -> None:
        for segment in gone:
            segment.close()
            segment.change_suffix("", DELETED_SUFFIX)
            self.deletions.put(segment.files, delete_at_ms)

    # In the middle

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether all of these are still segments of the log."""
        present = {id(segment) for segment in self.all}
        return all(id(segment) in present for segment in segments)

    def swap(self, olds: Sequence[Segment], cleaned: Segment, delete_at_ms: int, *, log_end_offset: int) -> None:
        """Replaces `olds` by a segment that compaction wrote (`.cleaned`, synced)."""
        if cleaned.size_bytes and cleaned.base_offset > log_end_offset:
            raise CorruptBatch(f"{cleaned.path} begins after the end of its log")
        gone = {id(old) for old in olds}
        cleaned.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
        sync_directory(self.directory)
        at = next(i for i, segment in enumerate(self.all) if id(segment) in gone)
        kept = [segment for segment in self.all if id(segment) not in gone]
        kept.insert(at, cleaned)
        # Replace before the renames: a flush in a thread skips segments that the log no longer has, and the new one,
        # which is synced.
        self._replace(kept)
        self._delete_later(olds, delete_at_ms)
        cleaned.change_suffix(SWAP_SUFFIX, "")

    # The disk

    def flush(self, end: int) -> None:
        """Syncs what was appended between the recovery point and `end`, and moves the recovery point. May run in a
        thread.

        A failed fsync is never repeated: the kernel may have dropped the pages and would then report success.
        """
        segments, cuts = self.all, self.cuts
        if end <= self.recovery_point or not self.has_files:
            return
        first = bisect_right(segments, self.recovery_point, key=lambda segment: segment.base_offset) - 1
        for segment in segments[max(0, first) :]:
            try:
                segment.txn_index.write_back()  # on a full disk the next flush tries again
                with sync_of_records():
                    segment.sync()
            except FileNotFoundError:
                # Retention or a cut may have deleted the segment meanwhile. Otherwise the file is lost.
                if segment in self.all and self.has_files:
                    raise
        names = self._name_changes
        if names != self._synced_names:
            sync_topic_id(self.directory)
            sync_directory(self.directory)
            sync_directory(self.directory.parent)
            self._synced_names = names
        # A log that was truncated meanwhile may have other records at these offsets. A cut that ends between the two
        # comparisons has changed `cuts`.
        if not self._is_being_cut and cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, end)

    def move_to(self, directory: Path) -> None:
        """The directory of the log was renamed to `directory`."""
        self.directory = directory
        for segment in self.all:
            segment.move_to(directory)

    def close(self) -> None:
        for segment in self.all:
            segment.close()


def _segment_in_memory(directory: Path, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
    segment = Segment(directory, base_offset, config)
    segment.created_ms = now_ms
    return segment


def _percent_of_disk(directory: Path, percent: float) -> int:
    """`percent` of the size of the directory's disk in bytes, or -1 for no limit."""
    if percent <= 0:
        return -1
    disk = os.statvfs(directory)
    return int(disk.f_blocks * disk.f_frsize * percent / 100)


def _offset_behind(found: Slice, segments: Sequence[Segment], otherwise: int) -> int:
    """The first offset behind a slice of one of these segments. Asks the data, because an index may be wrong."""
    end = found.position + found.length
    for at, segment in enumerate(segments):
        if segment.holds_file and segment.file is found.file:
            if end < segment.size_bytes:
                with contextlib.suppress(CorruptBatch):
                    return next(segment.places(end)).base_offset
            elif at + 1 < len(segments):
                return segments[at + 1].base_offset
            break
    return otherwise
