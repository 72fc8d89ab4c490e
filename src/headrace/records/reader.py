"""Decodes batches into records, for coordinators, compaction, timestamp lookups and command-line tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import TIMESTAMP_TYPE_BIT, BatchView
from headrace.records.builder import Record
from headrace.records.compression import MAX_DECOMPRESSED_BYTES, Codec, decompress
from headrace.records.unreadable import UnreadableBatch
from headrace.records.varint import read_varint

# Behind its length, a record has at least attributes, two deltas, two lengths and a header count.
SMALLEST_BODY_BYTES: Final = 6


def opened_section(batch: BatchView, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The decompressed record section of `batch` as bytes, because indexing bytes is twice as fast as indexing a
    memoryview. Raises UnreadableBatch."""
    try:
        return _opened(batch, limit)
    except CorruptBatch as fault:
        raise UnreadableBatch(batch, fault.message) from None


def read_records(batch: BatchView, limit: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Every record with its absolute offset and timestamp. Raises UnreadableBatch unless the section holds exactly the
    records that the header counts.
    """
    return list(iter_records(batch, limit))


def iter_records(batch: BatchView, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    try:
        yield from _records(batch, limit)
    except CorruptBatch as fault:
        raise UnreadableBatch(batch, fault.message) from None


def fault_in_records(batch: BatchView, limit: int = MAX_DECOMPRESSED_BYTES) -> UnreadableBatch | None:
    """What is wrong with the records of a batch, or None if they can be read. Does not check the checksum."""
    try:
        for _ in _records(batch, limit):
            pass
    except CorruptBatch as fault:
        return UnreadableBatch(batch, fault.message)
    return None


def first_unreadable(batches: Iterable[BatchView]) -> UnreadableBatch | None:
    """The first batch whose records cannot be read, or None. Raises CorruptBatch if the iteration of `batches` does, at
    a torn batch or a wrong checksum.
    """
    return next((fault for batch in batches if (fault := fault_in_records(batch)) is not None), None)


def _opened(batch: BatchView, limit: int) -> bytes:
    codec = batch.codec
    section = batch.records_section
    return bytes(section) if codec is Codec.NONE else bytes(decompress(codec, section, limit))


def _records(batch: BatchView, limit: int) -> Iterator[Record]:
    section = _opened(batch, limit)
    count = batch.record_count
    if count < 0 or count * (SMALLEST_BODY_BYTES + 1) > len(section):
        raise CorruptBatch(f"{count} records cannot be in {len(section)} bytes")
    base_offset = batch.base_offset
    base_timestamp_ms = batch.base_timestamp_ms
    appended_ms = batch.max_timestamp_ms if batch.attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    for _ in range(count):
        length, start = read_varint(section, position)
        position = start + length
        if length < SMALLEST_BODY_BYTES or position > len(section):
            raise CorruptBatch(f"a record of {length} bytes at byte {start} does not fit")
        timestamp_delta, at = read_varint(section, start + 1)
        offset_delta, at = read_varint(section, at)
        key, at = _read_bytes(section, at, position)
        value, at = _read_bytes(section, at, position)
        header_count, at = read_varint(section, at)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if header_count:
            headers, at = _read_headers(section, at, position, header_count)
        if at != position:
            raise CorruptBatch(f"a record at byte {start} has {position - at} bytes too many")
        timestamp_ms = base_timestamp_ms + timestamp_delta if appended_ms is None else appended_ms
        yield Record(key, value, headers, timestamp_ms, base_offset + offset_delta)
    if position != len(section):
        raise CorruptBatch(f"{len(section) - position} bytes follow its last record")


def _read_bytes(section: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(section, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise CorruptBatch(f"a key or value of {length} bytes at byte {at} reaches past its record")
    return section[at : at + length], at + length


def _read_headers(section: bytes, at: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if count < 0 or count * 2 > end - at:
        raise CorruptBatch(f"{count} headers at byte {at} cannot be in {end - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(section, at, end)
        if name is None:
            raise CorruptBatch(f"a header at byte {at} has no name")
        value, at = _read_bytes(section, at, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise CorruptBatch(f"a header name at byte {at} is not UTF-8") from None
    return tuple(headers), at
