"""Checks of the records in a Produce request that Kafka does before it looks up their partition."""

from __future__ import annotations

import struct
import uuid
from typing import Final

from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.records.batch import HEADER_BYTES
from headrace.records.validation import whole_batch
from headrace.wire.produce import ProduceRequest

_OVERHEAD_BYTES: Final = 12
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC_MASK: Final = 7
_TRANSACTIONAL: Final = 0x10
_ZSTD: Final = 4
_ZSTD_FROM_VERSION: Final = 7
_MAGIC: Final = 2
_read_length: Final = struct.Struct(">i").unpack_from

# Cached: producers send the same few topics in every request.
_ids: dict[bytes, uuid.UUID] = {}
_IDS_KEPT: Final = 10_000


def topic_id_of(data: bytes) -> uuid.UUID:
    found = _ids.get(data)
    if found is None:
        if len(_ids) >= _IDS_KEPT:
            _ids.clear()
        found = _ids[data] = uuid.UUID(bytes=data)
    return found


def check_records(records: memoryview | None, version: int, transactional: bool = False) -> memoryview:
    """Exactly one batch of the current format, in a compression that the version allows. Raises Refused."""
    if records is None or len(records) < HEADER_BYTES:
        raise Refused(
            ErrorCode.invalid_record, f"produce v{version} needs one record batch per partition, there is none"
        )
    magic = records[_MAGIC_AT]
    if magic > _MAGIC:
        raise CorruptBatch(f"record batch of magic {magic}: there is no such format")
    if magic != _MAGIC:
        raise Refused(ErrorCode.invalid_record, f"record batch of magic {magic}: produce v{version} takes magic 2 only")
    (length,) = _read_length(records, _LENGTH_AT)
    if length + _OVERHEAD_BYTES != len(records):
        records = whole_batch(records)
    attributes = records[_ATTRIBUTES_LOW_AT]
    if attributes & _TRANSACTIONAL and not transactional:
        raise Refused(
            ErrorCode.transactional_id_authorization_failed,
            "a record batch of a transaction in a produce request that names no transactional id",
        )
    if attributes & _CODEC_MASK == _ZSTD and version < _ZSTD_FROM_VERSION:
        raise Refused(ErrorCode.unsupported_compression_type, f"zstd needs produce v7 or later, this is v{version}")
    return records


def has_transactional_records(request: ProduceRequest) -> bool:
    return any(
        records is not None and len(records) >= HEADER_BYTES and records[_ATTRIBUTES_LOW_AT] & _TRANSACTIONAL
        for _, partitions in request.topics
        for _, records in partitions
    )
