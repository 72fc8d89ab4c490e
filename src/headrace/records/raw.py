"""Records as places inside a batch: for those who copy or drop records without making objects of them.

Compaction needs the key, whether there is a value, and the bytes between which the record stands. A batch from which
records were dropped keeps its base offset, last offset and producer fields: offsets never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchView,
    TimestampType,
)
from headrace.records.compression import compress
from headrace.records.reader import opened_section
from headrace.records.varint import read_varint, write_varint

_CRC_AT: Final = 17


class Place(NamedTuple):
    """One record of an opened section: bytes `start` to `end` with its length in front."""

    start: int
    end: int
    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def places(batch: BatchView, section: bytes) -> Iterator[Place]:
    """Every record of the opened `section`; raises CorruptBatch when it does not hold them exactly."""
    position = 0
    base_offset = batch.base_offset
    for _ in range(batch.record_count):
        start = position
        length, body = read_varint(section, position)
        position = body + length
        if length <= 0 or position > len(section):
            raise CorruptBatch(f"batch at offset {base_offset}: a record of {length} bytes does not fit")
        timestamp_delta, at = read_varint(section, body + 1)
        offset_delta, at = read_varint(section, at)
        key_length, at = read_varint(section, at)
        key = None
        if key_length >= 0:
            key = section[at : at + key_length]
            at += key_length
        value_length, _ = read_varint(section, at)
        yield Place(start, position, base_offset + offset_delta, timestamp_delta, key, value_length >= 0)


def rebuilt(batch: BatchView, section: bytes, kept: list[Place], delete_horizon_ms: int | None) -> bytes:
    """The batch with only the `kept` records, everything else of it as it was.

    With a new delete horizon the timestamps are written anew, because the horizon takes the place of the base
    timestamp that they count from.
    """
    base_timestamp_ms, attributes = batch.base_timestamp_ms, batch.attributes
    shift = 0
    if delete_horizon_ms is not None and delete_horizon_ms != batch.delete_horizon_ms:
        shift = base_timestamp_ms - delete_horizon_ms
        base_timestamp_ms = delete_horizon_ms
        attributes |= DELETE_HORIZON_BIT
    if shift:
        records = b"".join(_shifted(section, place, shift) for place in kept)
    else:
        records = b"".join(section[place.start : place.end] for place in kept)
    max_timestamp_ms = batch.max_timestamp_ms
    if kept and batch.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp_ms = batch.base_timestamp_ms + max(place.timestamp_delta for place in kept)
    packed = compress(batch.codec, records) if kept else b""
    out = bytearray(
        HEADER.pack(
            batch.base_offset,
            HEADER_BYTES - LOG_OVERHEAD_BYTES + len(packed),
            batch.partition_leader_epoch,
            batch.magic,
            0,
            # An empty batch has nothing to open.
            attributes if kept else attributes & ~0x07,
            batch.last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(kept),
        )
    )
    out += packed
    view = BatchView(memoryview(out))
    struct.pack_into(">I", out, _CRC_AT, view.computed_crc())
    return bytes(out)


def opened(batch: BatchView) -> bytes:
    return opened_section(batch)


def _shifted(section: bytes, place: Place, shift: int) -> bytes:
    """A record whose timestamp counts from a base that lies `shift` earlier."""
    _, body = read_varint(section, place.start)
    _, after = read_varint(section, body + 1)
    head = bytearray(section[body : body + 1])
    write_varint(head, place.timestamp_delta + shift)
    out = bytearray()
    write_varint(out, len(head) + place.end - after)
    return bytes(out + head + section[after : place.end])
