"""Iterates over the batches of a data file: `walk` reads only headers, `scan` reads whole batches."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import (
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchView,
    check_extent,
)
from headrace.storage.files import SharedFile

# Header fields: base offset, length, leader epoch, magic, attributes, last offset delta, max timestamp.
_WALK: Final = struct.Struct(">qiib4xhi8xq")
_SMALLEST_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
# One read covers one index interval of small batches.
_CHUNK_BYTES: Final = 4096 + HEADER_BYTES
# Large enough for few reads, small enough to stay in the CPU cache until the checksum is computed.
_SCAN_BYTES: Final = 1024 * 1024


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
    """The batches from the batch boundary `position` up to `end`. Raises CorruptBatch at an invalid header."""
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


def scan(file: SharedFile, end: int) -> Iterator[tuple[int, BatchView]]:
    """Every batch up to `end` with its position, read in large pieces. Raises CorruptBatch at an invalid header.

    A batch is valid only until the next iteration, which reuses the buffer.
    """
    for position, batches in scan_chunks(file, end):
        for batch in batches:
            yield position + batch.position, batch


def scan_chunks(file: SharedFile, end: int) -> Iterator[tuple[int, list[BatchView]]]:
    """The same, with all batches of a read together: the position of their buffer in the file, and the batches."""
    fd = file.fileno()
    buffer = bytearray(min(_SCAN_BYTES, max(end, HEADER_BYTES)))
    position = 0
    while position < end:
        filled = os.preadv(fd, [buffer], position)
        view = memoryview(buffer)[: min(filled, end - position)]
        batches: list[BatchView] = []
        at, last = 0, len(view) - HEADER_BYTES
        while at <= last:
            batch = BatchView(view, at)
            size = batch.batch_length + LOG_OVERHEAD_BYTES
            if batch.magic != CURRENT_MAGIC or size < HEADER_BYTES or size > len(view) - at:
                # The next read begins here. An invalid header is reported when the batches before it are done.
                if at == 0 and not len(view) < size <= end - position:
                    check_extent(view, at)
                break
            batches.append(batch)
            at += size
        if batches:
            yield position, batches
        else:
            if len(view) < HEADER_BYTES or len(view) >= end - position:
                raise CorruptBatch(f"only {len(view)} bytes are left, too few for a batch")
            buffer = bytearray(min(len(buffer) * 2, end - position))
        position += at
