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
# The header in two parts: up to and including the checksum, and the fields that the checksum covers.
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


# Lengths and offset deltas of small records.
_VARINTS: Final = tuple(_varint(value) for value in range(256))


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
    """One sealed batch. Records get the offsets `base_offset`, +1, …; their own `offset` is ignored."""
    body = records_section(records)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    sealed = _sealed(
        records,
        body if codec is Codec.NONE else compress(codec, body, level),
        attributes,
        (producer_id, producer_epoch, base_sequence),
        base_offset,
        leader_epoch,
    )
    return bytes(sealed)


def build_writable_batch(
    records: Sequence[Record], producer: tuple[int, int] | None = None, codec: Codec = Codec.NONE
) -> bytearray:
    """One sealed batch that this broker will append. With `producer` (id, epoch) it is transactional.

    Its sequence is always 0, as in Kafka, because a coordinator does not number its batches.
    """
    section = records_section(records)
    if codec is not Codec.NONE:
        section = compress(codec, section)
    if producer is None:
        return _sealed(records, section, codec, (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE))
    return _sealed(records, section, TRANSACTIONAL_BIT | codec, (*producer, 0))


def _sealed(
    records: Sequence[Record],
    section: bytes | bytearray,
    attributes: int,
    producer: tuple[int, int, int],
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    count = len(records)
    first_ms = records[0].timestamp_ms
    last_ms = first_ms if count == 1 else max(record.timestamp_ms for record in records)
    covered = _AFTER_CRC.pack(attributes, count - 1, first_ms, last_ms, *producer, count) + section
    length = CRC_START - LOG_OVERHEAD_BYTES + len(covered)
    out = bytearray(_BEFORE_CRC.pack(base_offset, length, leader_epoch, CURRENT_MAGIC, crc32c(covered)))
    out += covered
    return out


def records_section(records: Sequence[Record]) -> bytes:
    """The uncompressed record section of a batch."""
    assert records, "a batch holds at least one record"
    base_timestamp_ms = records[0].timestamp_ms
    if len(records) == 1:
        return _framed_record(records[0], 0, 0)
    return b"".join(
        _framed_record(record, record.timestamp_ms - base_timestamp_ms, delta) for delta, record in enumerate(records)
    )


def write_record_body(record: Record, timestamp_delta: int, offset_delta: int) -> bytearray:
    """One record without its length, for code that builds a batch itself (compaction keeps offset gaps)."""
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


def _framed_record(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    key, value = record.key, record.value
    if not timestamp_delta and key is not None and value is not None and not record.headers:
        # Fast path for coordinators, which write small records with one timestamp.
        key_length, value_length = len(key), len(value)
        if key_length < 120 and value_length < 120 and offset_delta < 64:
            key_size, value_size = _VARINTS[key_length], _VARINTS[value_length]
            # Attributes, both deltas and the header count take one byte each.
            size = 4 + len(key_size) + key_length + len(value_size) + value_length
            delta = _VARINTS[offset_delta]
            return b"".join((_VARINTS[size], b"\0\0", delta, key_size, key, value_size, value, b"\0"))
    body = write_record_body(record, timestamp_delta, offset_delta)
    out = bytearray()
    write_varint(out, len(body))
    out += body
    return bytes(out)
