"""Opening the log of a partition: what to trust, what to check, what to rebuild.

After a clean stop the files are taken as they are; missing or senseless index files are rebuilt all the same. After a
crash every batch from the recovery point on is checked and the log is cut at the first bad byte; indexes, epochs,
aborted transactions and producers of what was checked are made anew from the data. Below the recovery point the data
was synced and is trusted, but its hints are still looked at.

What comes out is always a prefix of what was appended, and opening twice gives the same. Runs in a recovery thread; the
log is handed to the event loop when it is done.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.kernel.errors import CorruptBatch, Fault
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchView, check_extent
from headrace.storage.checkpoints import CorruptFile, read_topic_id
from headrace.storage.core.recovery import verdict
from headrace.storage.cutting import rebuild_producers
from headrace.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    HINT_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_of_file,
    tolerated_no_space,
)
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.segment import Segment
from headrace.storage.swaps import complete_swaps
from headrace.storage.trash import Trash

_SCAN_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Marks:
    """What the checkpoints of the log dir say about a partition."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    partition: TopicPartition
    segments_done: int
    segments_to_check: int


@dataclass(frozen=True, slots=True)
class Damage:
    """The first byte that could not be trusted, and why; everything from there on was cut."""

    path: Path
    position: int
    reason: str


def open_log(
    directory: Path,
    partition: TopicPartition,
    config: LogConfig,
    *,
    clean: bool,
    marks: Marks | None = None,
    now_ms: int = 0,
    trash: Trash | None = None,
    on_disk_fault: Callable[[OSError], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Log:
    marks = marks or Marks()
    log = Log(
        directory,
        partition.topic,
        partition.partition,
        config,
        topic_id=_topic_id(directory),
        trash=trash,
        on_disk_fault=on_disk_fault,
    )
    segments = _load_segments(directory)
    epochs_sound = log.leader_epochs.load()
    suspect = _first_suspect(segments, config, clean=clean, recovery_point=marks.recovery_point)
    opening = _Opening(log, segments, on_progress, on_damage)
    if suspect is not None:
        opening.check_from(suspect, marks.log_start_offset)
        segments = opening.segments
    if not segments:
        segments = [Segment.create(directory, marks.log_start_offset, config, now_ms=now_ms)]
    elif not segments[-1].offset_index.file.is_active:
        segments[-1].activate(config)
    log.set_segments(tuple(segments))
    end = segments[-1].next_offset()
    log_start = max(marks.log_start_offset, segments[0].base_offset)
    if log_start > end:
        # Records were deleted up to a point that the data no longer reaches: nothing of it is readable.
        log.truncate_fully_and_start_at(log_start, now_ms=now_ms)
        return log
    _settle_epochs(log, log_start, end, rebuild=not epochs_sound or _epochs_missing(log))
    rebuild_producers(log, log_start, end)
    log.producers.drop_snapshots(keep={segment.base_offset for segment in segments})
    recovered_to = end if suspect is None else min(marks.recovery_point, end)
    log.set_marks(log_start=log_start, end=end, high_watermark=marks.high_watermark, recovery_point=recovered_to)
    return log


def _topic_id(directory: Path) -> uuid.UUID | None:
    try:
        return read_topic_id(directory)
    except CorruptFile:
        return None


def _load_segments(directory: Path) -> list[Segment]:
    """The segments that are there, after tidying what deletions, compaction or small writes left half done."""
    complete_swaps(directory)
    names = sorted(entry.name for entry in os.scandir(directory))
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    segments = []
    for name in names:
        orphan = name.endswith(HINT_SUFFIXES) and name.partition(".")[0] not in logs
        if orphan or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")):
            (directory / name).unlink()
        elif name.endswith(LOG_SUFFIX):
            base_offset = offset_of_file(name)
            if base_offset is not None:
                segments.append(Segment.load(directory, base_offset))
    return segments


def _first_suspect(segments: list[Segment], config: LogConfig, *, clean: bool, recovery_point: int) -> int | None:
    """Which segment is the first to be checked, if any. Hints that cannot be right are rebuilt here."""
    suspect: int | None = None
    if not clean and segments:
        suspect = 0
        while suspect + 1 < len(segments) and segments[suspect + 1].base_offset <= recovery_point:
            suspect += 1
    for at, segment in enumerate(segments):
        if suspect is not None and at >= suspect:
            break
        try:
            if not segment.txn_index.looks_sound(segment.base_offset):
                return at
            if not segment.open_indexes():
                segment.rebuild_indexes(config)
                segment.close()
            if at == len(segments) - 1:
                segment.next_offset()
        except Fault:
            return at
    return suspect


class _Opening:
    """One pass over suspect segments."""

    def __init__(
        self,
        log: Log,
        segments: list[Segment],
        on_progress: Callable[[Progress], None] | None,
        on_damage: Callable[[Damage], None] | None,
    ) -> None:
        self.log = log
        self.segments = segments
        self._on_progress = on_progress
        self._on_damage = on_damage

    def check_from(self, first: int, log_start_offset: int) -> None:
        log, all_segments = self.log, self.segments
        base = all_segments[first].base_offset
        self.segments = all_segments[:first]
        if first:
            log.set_segments(tuple(self.segments))
            rebuild_producers(log, max(log_start_offset, all_segments[0].base_offset), base)
        else:
            log.producers.clear()
        log.leader_epochs.truncate_from_end(base)
        expected = base
        for at, segment in enumerate(all_segments[first:]):
            if segment.base_offset < expected:
                self._cut(all_segments[first + at :], 0, f"segment begins below {expected}, where the last one ended")
                break
            valid_bytes, expected, reason = self._check(segment)
            self.segments.append(segment)
            if self._on_progress is not None:
                partition = TopicPartition(log.topic, log.partition)
                self._on_progress(Progress(partition, at + 1, len(all_segments) - first))
            if reason is not None:
                os.ftruncate(segment.file.fileno(), valid_bytes)
                os.fsync(segment.file.fileno())
                segment.size_bytes = valid_bytes
                if self._on_damage is not None:
                    self._on_damage(Damage(segment.path, valid_bytes, reason))
                self._cut(all_segments[first + at + 1 :], 0, "follows a damaged segment")
            if reason is not None:
                break
            segment.seal()
        # What was checked is known only to this pass; the snapshot makes it the next start's knowledge too, and where
        # there is no space for one, the next start reads again.
        with tolerated_no_space():
            log.producers.take_snapshot(expected)

    def _cut(self, segments: list[Segment], position: int, reason: str) -> None:
        for segment in segments:
            if self._on_damage is not None:
                self._on_damage(Damage(segment.path, position, reason))
            segment.remove()

    def _check(self, segment: Segment) -> tuple[int, int, str | None]:
        """(good bytes, next offset, what is wrong with the byte after them)."""
        log = self.log
        segment.reset_indexes(log.config)
        segment.txn_index.reset()
        expected, position = segment.base_offset, 0
        try:
            for position, batch in scan(segment):
                reason = verdict(batch, base_offset=segment.base_offset, expected_offset=expected)
                if reason is not None:
                    return position, expected, reason
                segment.index_batch(position, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
                log.leader_epochs.note(batch.partition_leader_epoch, batch.base_offset)
                if batch.producer_id >= 0:
                    completed = log.producers.replay(batch)
                    if completed is not None and completed.aborted:
                        segment.txn_index.append(log.producers.aborted(completed))
                expected = batch.next_offset
                position += batch.size_bytes
        except Fault as torn:
            return position, expected, torn.message
        return position, expected, None


def scan(segment: Segment) -> Iterator[tuple[int, BatchView]]:
    """Every batch with its position, read in large pieces; raises CorruptBatch at a byte where none can begin."""
    fd, end = segment.file.fileno(), segment.size_bytes
    buffer = bytearray(min(_SCAN_BYTES, max(end, HEADER_BYTES)))
    position = 0
    while position < end:
        filled = os.preadv(fd, [buffer], position)
        view = memoryview(buffer)[: min(filled, end - position)]
        at = 0
        while len(view) - at >= HEADER_BYTES:
            size = int.from_bytes(view[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
            if size > len(view) - at and position + at + size <= end:
                break
            check_extent(view, at)
            yield position + at, BatchView(view, at)
            at += size
        if at == 0:
            if len(view) < HEADER_BYTES or len(view) >= end - position:
                raise CorruptBatch(f"only {len(view)} bytes are left, too few for a batch")
            buffer = bytearray(min(len(buffer) * 2, end - position))
        position += at


def _epochs_missing(log: Log) -> bool:
    return not log.leader_epochs.path.exists() and log.segments[-1].base_offset + log.segments[-1].size_bytes > 0


def _settle_epochs(log: Log, log_start: int, end: int, *, rebuild: bool) -> None:
    """Epochs as the data tells them, no later than its end and no earlier than its start."""
    if rebuild:
        for segment in log.segments:
            for place in segment.places():
                log.leader_epochs.note(place.leader_epoch, place.base_offset)
    log.leader_epochs.truncate_from_end(end)
    log.leader_epochs.truncate_from_start(log_start)
    with tolerated_no_space():
        log.leader_epochs.save_if_changed()
