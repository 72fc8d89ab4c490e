"""One segment of a log: a data file and its indexes, named after the first offset they may hold.

The active segment appends at its end and keeps its indexes in memory. A sealed segment opens files on first use, so
that ten thousand old segments cost neither descriptors nor start-up time. Indexes are caches: every lookup walks batch
headers from the indexed position and checks them, and a wrong index is rebuilt (`recovery.index_check`).

Owned by its log, on the log's task. Threads may call `sync` and the reading methods of a sealed segment.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headrace.kernel.errors import CorruptBatch, StorageFault
from headrace.records.batch import HEADER_BYTES, BatchView
from headrace.storage.core.roll import should_roll
from headrace.storage.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SharedFile,
    file_stem,
    is_no_space,
    write_fully,
)
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.index_check import IndexTrust, check_hints, rebuild_indexes
from headrace.storage.segment.batch_scan import BatchPlace, Slice, walk
from headrace.storage.segment.offset_index import OffsetIndex
from headrace.storage.segment.time_index import TimeIndex
from headrace.storage.segment.txn_index import TxnIndex

# Number of the newest batches whose positions are in memory, for readers at the tail; older offsets use the index.
_RECENT_BATCHES: Final = 4096


class AppendedBatch(NamedTuple):
    """What a segment must know of a batch that it appends, for callers without a view of the batch."""

    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class Segment:
    def __init__(self, directory: Path, base_offset: int, config: LogConfig, *, suffix: str = "") -> None:
        stem = directory / file_stem(base_offset)
        self.base_offset = base_offset
        self.path = stem.with_name(stem.name + LOG_SUFFIX + suffix)
        self.offset_index = OffsetIndex(stem.with_name(stem.name + INDEX_SUFFIX + suffix), base_offset)
        self.time_index = TimeIndex(stem.with_name(stem.name + TIME_INDEX_SUFFIX + suffix), base_offset)
        self.txn_index = TxnIndex(stem.with_name(stem.name + TXN_INDEX_SUFFIX + suffix))
        self.size_bytes = 0
        self.created_ms = 0
        self.max_timestamp_ms = -1
        self.offset_of_max_timestamp = base_offset
        self._file: SharedFile | None = None
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        self._config = config
        self.roll_jitter_ms = 0
        self._recent: dict[int, int] = {}
        # Indexes from the disk are checked before their first use; indexes of a new segment need no check.
        self.belief = IndexTrust.WHOLE
        # Counts changes of the files, so that a sync in a thread notices those that it may not have.
        self._changes = 0
        self._synced_changes = -1

    # Opening and closing

    @classmethod
    def create(
        cls, directory: Path, base_offset: int, config: LogConfig, *, now_ms: int, suffix: str = "", active: bool = True
    ) -> Segment:
        """A new, empty segment. Raises StorageFault if a data file of that name already has a batch."""
        segment = cls(directory, base_offset, config, suffix=suffix)
        segment.created_ms = now_ms
        segment._file = SharedFile(segment.path, os.O_RDWR | os.O_CREAT)
        if not suffix and os.pread(segment._file.fileno(), HEADER_BYTES, 0).strip(b"\0"):
            raise StorageFault(f"{segment.path} holds records that the log does not know: restart the broker")
        os.ftruncate(segment._file.fileno(), 0)
        segment.txn_index.reset()
        if active:
            segment._tune(config)
            segment.offset_index.file.activate(config.segment_index_bytes, keep=False)
            segment.time_index.file.activate(config.segment_index_bytes, keep=False)
            if config.preallocate:
                os.ftruncate(segment._file.fileno(), config.segment_bytes)
        return segment

    @classmethod
    def load(cls, directory: Path, base_offset: int, config: LogConfig | None = None, *, suffix: str = "") -> Segment:
        """Opens an existing segment without checking its data; recovery does that."""
        segment = cls(directory, base_offset, config or LogConfig(), suffix=suffix)
        facts = segment.path.stat()
        segment.size_bytes = facts.st_size
        segment.created_ms = int(facts.st_mtime * 1000)
        segment.belief = IndexTrust.NONE
        return segment

    def open_indexes(self) -> bool:
        """Opens the index files. Returns False if they are missing or invalid and must be rebuilt."""
        there = self.offset_index.file.open_sealed() and self.time_index.file.open_sealed()
        if not there or (self.size_bytes > 0 and self.time_index.file.count == 0):
            return False
        # Both grow together, except for the one time entry that sealing adds.
        if self.offset_index.file.count == 0 and self.time_index.file.count > 1:
            return False
        if not self.offset_index.looks_sound(self.size_bytes) or not self.time_index.looks_sound():
            return False
        self.max_timestamp_ms, self.offset_of_max_timestamp = self.time_index.last
        return True

    def _tune(self, config: LogConfig) -> None:
        self._config = config
        self.roll_jitter_ms = random.randrange(config.segment_jitter_ms) if config.segment_jitter_ms > 0 else 0

    def activate(self, config: LogConfig) -> None:
        """Makes a loaded segment writable."""
        self._tune(config)
        self.offset_index.file.activate(config.segment_index_bytes)
        self.time_index.file.activate(config.segment_index_bytes)
        self._bytes_since_entry = 0

    def seal(self) -> None:
        """Ends writing: adds the newest timestamp to the time index and truncates files to their content."""
        if not self.offset_index.file.is_active:
            return
        self._changes += 1
        self.txn_index.write_back()
        if self.max_timestamp_ms >= 0:
            self.time_index.maybe_append(self.max_timestamp_ms, self.offset_of_max_timestamp)
        self.offset_index.file.seal()
        self.time_index.file.seal()
        os.ftruncate(self.file.fileno(), self.size_bytes)
        self._recent.clear()

    def release_file(self) -> None:
        """Closes the data file until the next use. Readers that hold a slice keep their descriptor."""
        self._file = None

    def close(self) -> None:
        self.release_file()
        self.offset_index.file.drop()
        self.time_index.file.drop()

    def remove(self) -> None:
        self.close()
        for path in self.files:
            path.unlink(missing_ok=True)

    @property
    def holds_file(self) -> bool:
        return self._file is not None

    @property
    def file(self) -> SharedFile:
        if self._file is None:
            self._file = SharedFile(self.path)
        return self._file

    @property
    def files(self) -> list[Path]:
        return [self.path, self.offset_index.file.path, self.time_index.file.path, self.txn_index.path]

    def change_suffix(self, old: str, new: str) -> None:
        """Renames every file of the segment; skips files that do not exist.

        The data file is the first to leave the log and the last to enter it. If it came before its index of aborted
        transactions, recovery after a crash in between would take the segment for one that has none.
        """
        for path in self.files if new == DELETED_SUFFIX else reversed(self.files):
            assert path.name.endswith(old), f"{path} does not end with {old!r}"
            target = path.with_name(path.name.removesuffix(old) + new)
            with contextlib.suppress(FileNotFoundError):
                path.rename(target)
        self.path = self.path.with_name(self.path.name.removesuffix(old) + new)
        for index in (self.offset_index.file, self.time_index.file, self.txn_index):
            index.path = index.path.with_name(index.path.name.removesuffix(old) + new)

    def move_to(self, directory: Path) -> None:
        """The directory of the log was renamed to `directory`."""
        self.path = directory / self.path.name
        for index in (self.offset_index.file, self.time_index.file, self.txn_index):
            index.path = directory / index.path.name

    def sync(self) -> None:
        """Syncs the data, then the indexes. Runs in a thread while the loop may append, rename or close the file."""
        changes = self._changes
        if changes == self._synced_changes:
            return
        # The reference keeps the descriptor open; otherwise its number could be reused before the sync.
        file = self.file
        os.fsync(file.fileno())
        self.offset_index.file.sync()
        self.time_index.file.sync()
        self.txn_index.sync()
        self._synced_changes = changes

    # Writing

    def append(self, data: memoryview, base_offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Appends one batch with its offsets set. On failure it truncates the file, and the segment is as before."""
        position = self.size_bytes
        self._write(data, position)
        self._note(position, len(data), base_offset, last_offset, max_timestamp_ms)

    def append_many(self, data: memoryview, batches: Sequence[BatchView | AppendedBatch]) -> None:
        """Appends consecutive batches in `data` with one write."""
        position = self.size_bytes
        self._write(data, position)
        for batch in batches:
            size = batch.size_bytes
            self._note(position, size, batch.base_offset, batch.last_offset, batch.max_timestamp_ms)
            position += size

    def _write(self, data: memoryview, position: int) -> None:
        fd = self.file.fileno()
        try:
            written = os.pwrite(fd, data, position)
            if written != len(data):
                write_fully(fd, data[written:], position + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, position)
            raise
        # After the write: a sync that began during the write does not count for it.
        self._changes += 1

    def _note(self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        if position == 0:
            self._first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._add_entries(last_offset, position)
        recent = self._recent
        if len(recent) >= _RECENT_BATCHES:
            recent.clear()
        recent[base_offset] = position
        self._bytes_since_entry += size
        self.size_bytes = position + size

    def _add_entries(self, last_offset: int, position: int) -> None:
        try:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp_ms, self.offset_of_max_timestamp)
        except OSError as error:
            # The batch is in the log. A missing index entry only makes lookups slower; the next batch tries again.
            if not is_no_space(error):
                raise
        else:
            self._bytes_since_entry = 0

    def should_roll(self, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int, config: LogConfig) -> bool:
        return should_roll(
            self,
            incoming_bytes=size,
            incoming_last_offset=last_offset,
            incoming_timestamp_ms=max_timestamp_ms,
            now_ms=now_ms,
            segment_bytes=config.segment_bytes,
            segment_ms=config.roll_ms,
        )

    @property
    def indexes_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Removes everything from the batch that contains `offset` on. The segment must be active."""
        position = self.position_of(offset)
        if position is None:
            return
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._changes += 1
        os.ftruncate(self.file.fileno(), position)
        self.size_bytes = position
        self._recent.clear()
        self._bytes_since_entry = 0
        self.max_timestamp_ms, self.offset_of_max_timestamp = self.time_index.last
        if position == 0:
            self.created_ms = now_ms
            self._first_timestamp_ms = None
        # The time index does not cover the batches after its last entry.
        for place in self.places(self.offset_index.position_at_or_below(self.offset_of_max_timestamp)):
            if place.max_timestamp_ms > self.max_timestamp_ms:
                self.max_timestamp_ms, self.offset_of_max_timestamp = place.max_timestamp_ms, place.last_offset

    # Reading

    @property
    def first_timestamp_ms(self) -> int | None:
        """The max timestamp of the first batch, from which the roll time counts."""
        if self._first_timestamp_ms is None and self.size_bytes > 0:
            first = next(self.places(0), None)
            self._first_timestamp_ms = None if first is None else first.max_timestamp_ms
        return self._first_timestamp_ms

    @property
    def largest_timestamp_ms(self) -> int:
        """The newest record's timestamp, or the file's modification time if the records have none."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else int(self.path.stat().st_mtime * 1000)

    def places(self, position: int = 0, end: int | None = None) -> Iterator[BatchPlace]:
        """The positions of batches from the batch boundary `position` on. Raises CorruptBatch at an invalid header."""
        return walk(self.file, position, self.size_bytes if end is None else end)

    def batch_at(self, place: BatchPlace) -> BatchView:
        file = self.file  # keeps it open while a thread reads: the loop may close it
        data = os.pread(file.fileno(), place.size_bytes, place.position)
        if len(data) != place.size_bytes:
            raise CorruptBatch(f"{self.path}: the file ends inside the batch at byte {place.position}")
        return BatchView(memoryview(data))

    def batches(self, position: int = 0) -> Iterator[BatchView]:
        """Every batch from the batch boundary `position` on, read one by one. Does not check checksums."""
        return (self.batch_at(place) for place in self.places(position))

    def position_of(self, offset: int) -> int | None:
        """The position of the first batch that ends at or after `offset`, or None if all end before it."""
        known = self._recent.get(offset)
        if known is not None:
            return known
        check_hints(self)
        try:
            return self.walk_to(self.offset_index.position_at_or_below(offset), offset)
        except CorruptBatch:
            rebuild_indexes(self)
            return self.walk_to(self.offset_index.position_at_or_below(offset), offset)

    def walk_to(self, position: int, offset: int) -> int | None:
        """The position of the first batch from the boundary `position` on that ends at or after `offset`."""
        if not 0 <= position <= self.size_bytes:
            raise CorruptBatch(f"{self.path}: the index leads to byte {position} of {self.size_bytes}")
        first = True
        for place in self.places(position):
            # A wrong index may point at bytes that look like a header. A batch that begins above `offset` shows that.
            if first and position > 0 and not self.base_offset <= place.base_offset <= offset:
                raise CorruptBatch(f"{self.path}: the index leads to offset {place.base_offset} instead of {offset}")
            first = False
            if place.last_offset >= offset:
                return place.position
        return None

    def read(self, offset: int, max_bytes: int, bound: int | None, *, min_one_batch: bool) -> Slice | None:
        """Batches from the one that contains `offset` on, all wholly below `bound`, at most `max_bytes`."""
        start = self.position_of(offset)
        if start is None:
            return None
        end = self.size_bytes
        if bound is not None:
            at = self.position_of(bound)
            if at is not None:
                end = at
        length = end - start
        if length > max_bytes:
            length = self._fitting(start, max_bytes, min_one_batch)
        return Slice(self.file, start, length) if length > 0 else None

    def _fitting(self, start: int, max_bytes: int, min_one_batch: bool) -> int:
        """The size of the whole batches from `start` on that fit into `max_bytes`."""
        limit = start + max_bytes
        hint = max(start, self.offset_index.greatest_position_at_or_below(limit))
        fitting = hint
        for place in self.places(hint):
            if place.position + place.size_bytes > limit:
                if place.position == start and min_one_batch:
                    return place.size_bytes
                break
            fitting = place.position + place.size_bytes
        return fitting - start

    def last_place(self) -> BatchPlace | None:
        """The last batch, found by walking from the last index entry."""
        count = self.offset_index.file.count
        last = None
        for place in self.places(self.offset_index.entry(count - 1)[1] if count else 0):
            last = place
        return last

    # Repair

    def reset_indexes(self) -> None:
        """Empties the indexes. The caller then walks the data and calls `index_batch`."""
        config = self._config
        self.belief = IndexTrust.WHOLE
        self._changes += 1
        self.close()
        self._tune(config)
        self.offset_index.file.activate(
            max(config.segment_index_bytes, self.size_bytes // 256), keep=False, written_later=True
        )
        self.time_index.file.activate(
            max(config.segment_index_bytes, self.size_bytes // 128), keep=False, written_later=True
        )
        self.time_index.forget()
        self._bytes_since_entry = 0
        self.max_timestamp_ms, self.offset_of_max_timestamp = -1, self.base_offset

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Adds the index entries of a batch that is already in the file."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.offset_of_max_timestamp = max_timestamp_ms, last_offset
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._add_entries(last_offset, position)
        self._bytes_since_entry += size
