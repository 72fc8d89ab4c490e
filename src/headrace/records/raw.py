"""Records as byte ranges inside a batch, for code that copies or drops records without decoding them.

Compaction needs each record's key, whether it has a value, and its byte range. A batch from which compaction drops
records keeps its base offset, last offset and producer fields: offsets never change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.kernel.checksum import crc32c
from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import (
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchView,
    TimestampType,
)
from headrace.records.compression import compress
from headrace.records.reader import SMALLEST_BODY_BYTES, opened_section
from headrace.records.varint import read_varint, write_varint

_CRC_AT: Final = 17
_MAX_TIMESTAMP: Final = struct.Struct(">35xq")


# A record is at least its length, attributes, two deltas, two lengths and a header count, each of one byte.
_SMALLEST_RECORD_BYTES: Final = SMALLEST_BODY_BYTES + 1


class Layout(NamedTuple):
    """The records of a batch: record i is at bytes `starts[i]` to `starts[i + 1]` of the decompressed section."""

    section: bytes
    starts: list[int]
    offsets: Sequence[int]
    keys: list[bytes | None]
    tombstones: list[int]  # indexes of the records without a value


def layout(batch: BatchView) -> Layout:
    """The byte range of every record. Raises CorruptBatch unless the section holds exactly the counted records.

    The varint decoding is inlined, because compaction spends most of its time here.
    """
    section, count = opened_section(batch), batch.record_count
    if count < 0 or count * _SMALLEST_RECORD_BYTES > len(section):
        raise CorruptBatch(f"batch at offset {batch.base_offset}: {count} records cannot be in {len(section)} bytes")
    # Offsets inside a batch rise. If there are as many records as offsets, each offset delta is the record's index.
    dense = count == batch.last_offset_delta + 1
    starts, keys, tombstones, deltas = [0], [], [], []
    key: bytes | None
    end = 0
    try:
        for number in range(count):
            # The lowest bit of a varint's first byte is the sign; the highest bit of a byte means that another follows.
            byte = section[end]
            if byte < 0x80:
                length, body = byte >> 1, end + 1
            elif section[end + 1] < 0x80:
                length, body = (byte & 0x7F | section[end + 1] << 7) >> 1, end + 2
            else:
                length, body = read_varint(section, end)
            end = body + length
            at = body + 1
            while section[at] > 0x7F:
                at += 1
            at += 1
            if dense:
                while section[at] > 0x7F:
                    at += 1
                at += 1
            else:
                delta, at = read_varint(section, at)
                deltas.append(delta)
            first = section[at]
            if first & 1:
                key = None
                while section[at] > 0x7F:
                    at += 1
                at += 1
            else:
                if first < 0x80:
                    key_length, at = first >> 1, at + 1
                else:
                    key_length, at = read_varint(section, at)
                key = section[at : at + key_length]
                at += key_length
            if section[at] & 1:
                tombstones.append(number)
            if byte & 1 or at >= end:
                raise CorruptBatch(f"batch at offset {batch.base_offset}: record {number} does not fit its length")
            keys.append(key)
            starts.append(end)
    except IndexError:
        raise CorruptBatch(f"batch at offset {batch.base_offset}: the records end too early") from None
    if end != len(section):
        raise CorruptBatch(f"batch at offset {batch.base_offset}: its records take {end} bytes of {len(section)}")
    base = batch.base_offset
    offsets = range(base, base + count) if dense else [base + delta for delta in deltas]
    return Layout(section, starts, offsets, keys, tombstones)


def rebuilt(batch: BatchView, records: Layout | None, kept: Sequence[int], delete_horizon_ms: int | None) -> bytes:
    """The batch with only the `kept` records; its other fields stay the same.

    A new delete horizon replaces the base timestamp, so the timestamp deltas of the records are rewritten.
    """
    base_timestamp_ms, attributes = batch.base_timestamp_ms, batch.attributes
    shift = 0
    if delete_horizon_ms is not None and delete_horizon_ms != batch.delete_horizon_ms:
        shift = base_timestamp_ms - delete_horizon_ms
        base_timestamp_ms = delete_horizon_ms
        attributes |= DELETE_HORIZON_BIT
    section, max_timestamp_ms = b"", batch.max_timestamp_ms
    if records is not None and kept:
        pieces = [records.section[records.starts[number] : records.starts[number + 1]] for number in kept]
        if batch.timestamp_type is TimestampType.CREATE_TIME:
            max_timestamp_ms = batch.base_timestamp_ms + max(map(_timestamp_delta, pieces))
        section = b"".join([_shifted(piece, shift) for piece in pieces] if shift else pieces)
    return _packed(batch, section, len(kept), attributes, base_timestamp_ms, max_timestamp_ms)


def repacked(batch: BatchView, section: bytes, count: int, max_timestamp_ms: int) -> bytes:
    """The batch with `count` of its records, whose bytes are `section`. Its other fields stay the same."""
    return _packed(batch, section, count, batch.attributes, batch.base_timestamp_ms, max_timestamp_ms)


def _packed(
    batch: BatchView, section: bytes, count: int, attributes: int, base_timestamp_ms: int, max_timestamp_ms: int
) -> bytes:
    packed = compress(batch.codec, section) if count else b""
    out = bytearray(
        HEADER.pack(
            batch.base_offset,
            HEADER_BYTES - LOG_OVERHEAD_BYTES + len(packed),
            batch.partition_leader_epoch,
            batch.magic,
            0,
            # An empty batch is not compressed.
            attributes if count else attributes & ~0x07,
            batch.last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            count,
        )
    )
    out += packed
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[CRC_START:]))
    return bytes(out)


def max_timestamp_of(data: bytes | memoryview) -> int:
    """The max timestamp in the header of a batch."""
    found: int = _MAX_TIMESTAMP.unpack_from(data)[0]
    return found


def _timestamp_delta(record: bytes) -> int:
    body = 1
    while record[body - 1] > 0x7F:
        body += 1
    byte = record[body + 1]
    return (byte >> 1) ^ -(byte & 1) if byte < 0x80 else read_varint(record, body + 1)[0]


def _shifted(record: bytes, shift: int) -> bytes:
    """The record with its timestamp delta relative to a base timestamp that is `shift` earlier."""
    _, body = read_varint(record, 0)
    timestamp_delta, after = read_varint(record, body + 1)
    head = bytearray(record[body : body + 1])
    write_varint(head, timestamp_delta + shift)
    out = bytearray()
    write_varint(out, len(head) + len(record) - after)
    return bytes(out + head + record[after:])
