"""Verifies the files of a partition without changing them, and reports the first wrong byte of each.
`index_inspection` compares the indexes with the data.

It opens nothing for writing and repairs nothing, so it can run beside a broker. A batch that the broker is writing may
then appear as a torn end of the active segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.records.batch import CURRENT_MAGIC, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchView, check_extent
from headrace.records.reader import fault_in_records
from headrace.records.unreadable import UnreadableBatch
from headrace.storage.core.compaction import MAX_OFFSET_SPAN
from headrace.storage.core.producers import Producer
from headrace.storage.dirs.checkpoints import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CorruptFile,
    read_epochs,
    read_topic_id,
)
from headrace.storage.dirs.log_dir import CLEAN_SHUTDOWN_FILE
from headrace.storage.files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    STRAY_DIR_SUFFIX,
    offset_of_file,
    partition_of_directory,
    partition_of_marked_directory,
)
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import ProducerState, decode_snapshot, fault_in_snapshot
from headrace.storage.recovery.index_inspection import Contents, faults_in_hints
from headrace.storage.segment.segment import Segment


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file; `position` is its first bad byte, -1 for a file that is missing."""

    path: Path
    position: int
    what: str

    def __str__(self) -> str:
        place = f" at byte {self.position}" if self.position >= 0 else ""
        return f"{self.path}{place}: {self.what}"


@dataclass(frozen=True, slots=True)
class UnreadablePlace:
    """The position of a batch that has a valid checksum and whose records cannot be read."""

    path: Path
    position: int
    fault: UnreadableBatch


@dataclass(slots=True)
class Verdict:
    """What checking a partition found."""

    directory: Path
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    first_offset: int = -1
    end_offset: int = -1
    problems: list[Problem] = field(default_factory=list)
    """All problems, including unreadable batches."""
    unreadable: list[UnreadablePlace] = field(default_factory=list)


def partition_directories(path: Path) -> list[Path]:
    """The partition directories at `path`: `path` itself, or those in it. A stray counts only as `path` itself."""
    stray = partition_of_marked_directory(path.name, STRAY_DIR_SUFFIX)
    if (stray or partition_of_directory(path.name)) is not None and any(path.glob("*" + LOG_SUFFIX)):
        return [path]
    return sorted(
        child for child in path.iterdir() if child.is_dir() and partition_of_directory(child.name) is not None
    )


def segments_in(directory: Path) -> list[Segment]:
    bases = (offset_of_file(path.name) for path in directory.glob("*" + LOG_SUFFIX))
    return [Segment.load(directory, base, LogConfig()) for base in sorted(base for base in bases if base is not None)]


def batches_in(path: Path) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of each batch of a data file. Raises CorruptBatch or Refused at the first invalid one."""
    data = memoryview(path.read_bytes())
    position = 0
    while position < len(data):
        size = check_extent(data, position)
        yield position, BatchView(data[position : position + size])
        position += size


def epochs_in(directory: Path) -> list[tuple[int, int]]:
    return read_epochs(directory / LEADER_EPOCH_FILE)


def latest_epoch(directory: Path) -> int:
    """The newest leader epoch in a partition's checkpoint or in its last batches; -1 if there is none."""
    try:
        latest = max((epoch for epoch, _ in epochs_in(directory)), default=-1)
    except CorruptFile:
        latest = -1
    for path in sorted(directory.glob("*" + LOG_SUFFIX), reverse=True):
        epochs = set(_epochs_of_batches(path))
        if epochs:
            return max(latest, *epochs)
    return latest


def _epochs_of_batches(path: Path) -> Iterator[int]:
    """The leader epochs in the batch headers, up to the first incomplete batch."""
    with path.open("rb") as file:
        size, position = os.fstat(file.fileno()).st_size, 0
        while len(head := os.pread(file.fileno(), HEADER_BYTES, position)) == HEADER_BYTES:
            _, length, epoch, magic, *_ = HEADER.unpack(head)
            position += LOG_OVERHEAD_BYTES + length
            if magic != CURRENT_MAGIC or length <= 0 or position > size:
                return
            yield epoch


def producers_in(path: Path) -> list[Producer] | None:
    """The producers of a snapshot file, or None when it is damaged."""
    return decode_snapshot(path.read_bytes())


def verify(directory: Path) -> Verdict:
    """Checks every batch, checksum, record, index entry and small file of a partition."""
    found = Verdict(directory)
    producers = ProducerState(directory)
    previous_end, epoch = -1, -1
    segments = segments_in(directory)
    for segment in segments:
        found.segments += 1
        found.size_bytes += segment.size_bytes
        if found.first_offset < 0:
            found.first_offset = segment.base_offset
        if segment.base_offset < previous_end:
            what = f"the segment begins at {segment.base_offset}, but the one before ends at {previous_end}"
            found.problems.append(Problem(segment.path, 0, what))
        contents = Contents(segment)
        previous_end = _verify_data(contents, found, max(previous_end, segment.base_offset), producers)
        found.problems += [Problem(*wrong) for wrong in faults_in_hints(contents, is_last=segment is segments[-1])]
        epoch = max([epoch, *(batch.leader_epoch for batch in contents.batches)])
    found.end_offset = previous_end
    _verify_small_files(directory, found, epoch)
    return found


def _verify_data(contents: Contents, found: Verdict, next_offset: int, producers: ProducerState) -> int:
    """Checks the data file. Returns the offset after its last good batch."""
    segment = contents.segment
    position = 0
    try:
        for place, batch in batches_in(segment.path):
            position = place
            batch.check_crc()
            # The checksum does not cover offsets, so an offset outside the segment's range is damage too.
            if batch.base_offset < next_offset or batch.last_offset - segment.base_offset > MAX_OFFSET_SPAN:
                what = f"offset {batch.base_offset} cannot follow {next_offset - 1} in this segment"
                found.problems.append(Problem(segment.path, place, what))
                return next_offset
            fault = fault_in_records(batch)
            if fault is None:
                found.records += batch.record_count
            else:
                found.unreadable.append(UnreadablePlace(segment.path, place, fault))
                what = f"{fault.message}; headrace log skip gets readers past it"
                found.problems.append(Problem(segment.path, place, what))
            found.batches += 1
            contents.note(place, batch, producers)
            next_offset = batch.last_offset + 1
            position = place + batch.size_bytes
    except Fault as fault:
        found.problems.append(Problem(segment.path, position, fault.message))
    return next_offset


def _verify_small_files(directory: Path, found: Verdict, latest_epoch: int) -> None:
    path = directory / LEADER_EPOCH_FILE
    try:
        epochs = epochs_in(directory)
        # A broker writes a new epoch within a second after its first record, and after a crash at its next start.
        was_stopped = (directory.parent / CLEAN_SHUTDOWN_FILE).exists()
        if was_stopped and latest_epoch > max((epoch for epoch, _ in epochs), default=-1):
            size = path.stat().st_size if path.exists() else 0
            found.problems.append(
                Problem(path, size, f"knows nothing of epoch {latest_epoch}, which wrote the log's end")
            )
    except CorruptFile as wrong:
        found.problems.append(Problem(path, wrong.position, str(wrong).removeprefix(str(path)).lstrip(":, ")))
    try:
        read_topic_id(directory)
    except CorruptFile as wrong:
        path = directory / PARTITION_METADATA_FILE
        found.problems.append(Problem(path, wrong.position, str(wrong).removeprefix(str(path)).lstrip(":, ")))
    for snapshot in sorted(directory.glob("*" + SNAPSHOT_SUFFIX)):
        fault = fault_in_snapshot(snapshot.read_bytes())
        if fault is not None:
            found.problems.append(Problem(snapshot, *fault))
