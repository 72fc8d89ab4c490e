"""Opens the log of a partition: decides what to trust, what to check and what to rebuild.

After a clean stop recovery trusts the files, but rebuilds missing or invalid index files. After a crash it checks every
batch from the recovery point on, truncates the log at the first bad byte, and rebuilds indexes, epochs, aborted
transactions and producers of the checked part from the data. Below the recovery point it trusts the data, which was
synced, but still checks the indexes.

The result is always a prefix of what was appended, and opening twice gives the same result. It runs in a recovery
thread, which then hands the log to the event loop.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.checkpoints import LEADER_EPOCH_FILE, CorruptFile, KnownAborted, read_topic_id
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    HINT_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_of_file,
    tolerated_no_space,
)
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.log_contents import LogContents
from headrace.storage.producer_state import ProducerState
from headrace.storage.recovery.cuts import RecoveryCuts
from headrace.storage.recovery.index_check import check_newest
from headrace.storage.recovery.interrupted_swaps import complete_swaps
from headrace.storage.recovery.segment_check import Damage, Progress, SegmentCheck, repair_hints
from headrace.storage.segment.batch_scan import BatchPlace
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.txn_index import NO_ENTRIES, Digest
from headrace.storage.segments import Segments

__all__ = ["Damage", "PartitionCheckpoints", "Progress", "open_log"]


@dataclass(frozen=True, slots=True)
class PartitionCheckpoints:
    """The entries of one partition in the checkpoints of its log directory."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    aborted: KnownAborted = field(default_factory=KnownAborted)


def open_log(
    directory: Path,
    partition: TopicPartition,
    config: LogConfig,
    *,
    clean: bool,
    marks: PartitionCheckpoints | None = None,
    now_ms: int = 0,
    deletions: DelayedDeletions | None = None,
    on_disk_fault: Callable[[OSError], None] | None = None,
    before_cut: Callable[[int], None] = lambda end: None,
    on_progress: Callable[[Progress], None] | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Log:
    marks, topic_id = marks or PartitionCheckpoints(), _topic_id(directory)
    leader_epochs, producers = LeaderEpochs(directory / LEADER_EPOCH_FILE), ProducerState(directory)
    segments = _load_segments(directory, config)
    epochs_sound = leader_epochs.load()
    suspect = _first_suspect(segments, marks, clean=clean)
    if suspect is not None:
        cuts = RecoveryCuts(directory, partition, topic_id, now_ms)
        checking = SegmentCheck(
            partition, segments, leader_epochs, producers, cuts, on_progress=on_progress, on_damage=on_damage
        )
        checking.check_from(suspect)
        segments = checking.segments
    if not segments:
        segments = [Segment.create(directory, marks.log_start_offset, config, now_ms=now_ms)]
    elif not segments[-1].offset_index.file.is_active:
        # Check before the first append: a new timestamp could hide that an index was truncated.
        check_newest(segments[-1])
        segments[-1].activate(config)
    last = segments[-1].last_place()
    end = _end_of(segments[-1], last)
    log_start = max(marks.log_start_offset, segments[0].base_offset)
    is_readable = log_start <= end
    if is_readable:
        rebuild = not epochs_sound or _epochs_missing(leader_epochs, segments, last)
        _reconcile_epochs(leader_epochs, segments, log_start, end, rebuild=rebuild)
        if suspect is None:
            producers.rebuild(segments, end)
        producers.note_written(segments, now_ms)
        producers.drop_snapshots(keep={segment.base_offset for segment in segments})
    recovered_to = end if suspect is None else min(marks.recovery_point, end)
    contents = LogContents(
        Segments(
            directory, segments, DelayedDeletions() if deletions is None else deletions, recovery_point=recovered_to
        ),
        leader_epochs,
        producers,
        min(log_start, end),
        end,
        marks.high_watermark,
    )
    log = Log(partition, config, contents, topic_id=topic_id, on_disk_fault=on_disk_fault, before_cut=before_cut)
    if not is_readable:
        # The log start is above the log end: all remaining records were deleted.
        log.truncate_fully_and_start_at(log_start, now_ms=now_ms)
    return log


def _topic_id(directory: Path) -> uuid.UUID | None:
    try:
        return read_topic_id(directory)
    except CorruptFile:
        return None


def _load_segments(directory: Path, config: LogConfig) -> list[Segment]:
    """The segments on the disk, after cleaning up interrupted deletions, compactions and writes of small files."""
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
                segments.append(Segment.load(directory, base_offset, config))
    return segments


def _first_suspect(segments: list[Segment], marks: PartitionCheckpoints, *, clean: bool) -> int | None:
    """The index of the first segment to check, if any. Repairs the index files of the trusted segments before it."""
    suspect: int | None = None
    if not clean and segments:
        suspect = 0
        while suspect + 1 < len(segments) and segments[suspect + 1].base_offset <= marks.recovery_point:
            suspect += 1
    for at, segment in enumerate(segments[:suspect]):
        try:
            sound = segment.open_indexes()
            end = segments[at + 1].base_offset if at + 1 < len(segments) else _end_of(segment, segment.last_place())
            if not sound or not _aborted_index_is_valid(segment, marks.aborted.of(segment.base_offset, end)):
                repair_hints(segment, segments[:at])
        except Fault:
            return at
    return suspect


def _end_of(segment: Segment, last: BatchPlace | None) -> int:
    return segment.base_offset if last is None else last.last_offset + 1


def _aborted_index_is_valid(segment: Segment, known: Digest | None) -> bool:
    """Whether the aborted-transaction index is the one that was written.

    Without a checkpoint entry (Kafka wrote the directory, or the file was removed), a segment with markers must be read
    once; a segment without markers needs no index.
    """
    index = segment.txn_index
    if not index.looks_sound(segment.base_offset):
        return False
    if known is not None:
        return index.digest == known
    return index.digest == NO_ENTRIES and not any(place.is_control for place in segment.places())


def _epochs_missing(epochs: LeaderEpochs, segments: list[Segment], last: BatchPlace | None) -> bool:
    """Whether the file is gone, or older than the data."""
    if last is not None and last.leader_epoch > epochs.latest:
        return True
    return not epochs.path.exists() and segments[-1].base_offset + segments[-1].size_bytes > 0


def _reconcile_epochs(
    epochs: LeaderEpochs, segments: list[Segment], log_start: int, end: int, *, rebuild: bool
) -> None:
    """Rebuilds the epochs from the data if needed, and limits them to the offsets of the log."""
    if rebuild:
        for segment in segments:
            for place in segment.places():
                epochs.note(place.leader_epoch, place.base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start)
    with tolerated_no_space():
        epochs.save_if_changed()
