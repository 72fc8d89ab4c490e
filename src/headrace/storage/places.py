"""Where batches stand in a data file, found by reading their headers and nothing else."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import CONTROL_BIT, CURRENT_MAGIC, HEADER_BYTES, LOG_OVERHEAD_BYTES
from headrace.storage.files import SharedFile

# Of a header: base offset, length, leader epoch, magic, attributes, last offset delta, max timestamp.
_WALK: Final = struct.Struct(">qiib4xhi8xq")
_SMALLEST_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
# One index interval of small batches is walked with one read.
_CHUNK_BYTES: Final = 4096 + HEADER_BYTES


class Slice(NamedTuple):
    """Whole batches in one file, ready for sendfile. Holding `file` keeps its descriptor open."""

    file: SharedFile
    position: int
    length: int


class BatchPlace(NamedTuple):
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    attributes: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)


def walk(file: SharedFile, position: int, end: int) -> Iterator[BatchPlace]:
    """The batches from the boundary `position` up to `end`; raises CorruptBatch where there is none."""
    fd = file.fileno()
    chunk, chunk_start = b"", position
    while position < end:
        at = position - chunk_start
        if at + _WALK.size > len(chunk):
            chunk, chunk_start, at = os.pread(fd, _CHUNK_BYTES, position), position, 0
            if len(chunk) < _WALK.size:
                raise CorruptBatch(f"{file.path}: the file ends inside a batch header at byte {position}")
        base_offset, length, epoch, magic, attributes, delta, max_timestamp_ms = _WALK.unpack_from(chunk, at)
        size = length + LOG_OVERHEAD_BYTES
        if magic != CURRENT_MAGIC or length < _SMALLEST_LENGTH or position + size > end:
            raise CorruptBatch(f"{file.path}: no batch at byte {position}")
        yield BatchPlace(position, size, base_offset, base_offset + delta, max_timestamp_ms, epoch, attributes)
        position += size
