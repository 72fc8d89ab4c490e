"""Records to bytes: one v2 batch, compressed and sealed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from headrace.kernel.checksum import crc32c
from headrace.kernel.dataclass import dataclass
from headrace.records.batch import (
    CONTROL_BIT,
    CRC_START,
    CURRENT_MAGIC,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from headrace.records.compression import Codec, compress
from headrace.records.varint import write_varint

CREATE_TIME: Final = TimestampType.CREATE_TIME
LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_CRC: Final = struct.Struct(">I")


@dataclass(slots=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = -1


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = CREATE_TIME,
    level: int | None = None,
) -> bytes:
    """One sealed batch. Records get the offsets `base_offset`, +1, … whatever their own `offset` says."""
    assert records, "a batch holds at least one record"
    base_timestamp_ms = records[0].timestamp_ms
    body = bytearray()
    for delta, record in enumerate(records):
        _write_record(body, record, record.timestamp_ms - base_timestamp_ms, delta)
    section = body if codec is Codec.NONE else compress(codec, body, level)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    out = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        out,
        0,
        base_offset,
        HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section),
        leader_epoch,
        CURRENT_MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp_ms,
        base_timestamp_ms if len(records) == 1 else max(record.timestamp_ms for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    out += section
    _CRC.pack_into(out, CRC_START - _CRC.size, crc32c(memoryview(out)[CRC_START:]))
    return bytes(out)


def write_record_body(record: Record, timestamp_delta: int, offset_delta: int) -> bytearray:
    """One record without its length, for those who lay out batches themselves (compaction keeps offset gaps)."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    for part in (record.key, record.value):
        if part is None:
            body.append(1)
        else:
            length = len(part)
            if length < 64:
                body.append(length << 1)
            else:
                write_varint(body, length)
            body += part
    if not record.headers:
        body.append(0)
        return body
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        encoded = name.encode()
        write_varint(body, len(encoded))
        body += encoded
        if value is None:
            body.append(1)
        else:
            write_varint(body, len(value))
            body += value
    return body


def _write_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = write_record_body(record, timestamp_delta, offset_delta)
    write_varint(out, len(body))
    out += body
