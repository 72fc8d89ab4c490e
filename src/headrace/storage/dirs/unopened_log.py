"""Topic id, offsets and number of records of a log that no broker has open.

Reads only the headers of batches, up to the first bad byte.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import RECORD_COUNT_AT
from headrace.storage.dirs.checkpoints import CorruptFile, read_topic_id
from headrace.storage.files import LOG_SUFFIX, SharedFile, offset_of_file
from headrace.storage.segment.batch_scan import BatchPlace, walk


def owner_of(directory: Path) -> uuid.UUID | None:
    """The id of the topic that the log in `directory` belongs to, or None if no readable file has it."""
    try:
        return read_topic_id(directory)
    except CorruptFile:
        return None


def count_records(directory: Path) -> int:
    """The number of records, without transaction markers."""
    count = 0
    for file, place in places_in(directory):
        if not place.is_control:
            count += int.from_bytes(os.pread(file.fileno(), 4, place.position + RECORD_COUNT_AT), "big")
    return count


def offsets_in(directory: Path) -> tuple[int, int]:
    """The first offset of the log in `directory`, and the one after its last good batch."""
    bases = [offset_of_file(path.name) for path in data_files(directory)]
    first = end = min((base for base in bases if base is not None), default=0)
    for _, place in places_in(directory):
        end = place.last_offset + 1
    return first, end


def data_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*" + LOG_SUFFIX) if offset_of_file(path.name) is not None)


def places_in(directory: Path, flags: int = os.O_RDONLY) -> Iterator[tuple[SharedFile, BatchPlace]]:
    """The position of every batch, with its file."""
    for path in data_files(directory):
        file = SharedFile(path, flags)
        try:
            for place in walk(file, 0, path.stat().st_size):
                yield file, place
        except CorruptBatch:
            return
