"""What Kafka checks of the records in a Produce request before it looks for their partition."""

from __future__ import annotations

import struct
import uuid
from typing import Final

from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused

_OVERHEAD_BYTES: Final = 12
_HEADER_BYTES: Final = 61
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC_MASK: Final = 7
_ZSTD: Final = 4
_ZSTD_FROM_VERSION: Final = 7
_MAGIC: Final = 2
_read_length: Final = struct.Struct(">i").unpack_from

# Producers name the same few topics in every request.
_ids: dict[bytes, uuid.UUID] = {}
_IDS_KEPT: Final = 10_000


def topic_id_of(data: bytes) -> uuid.UUID:
    found = _ids.get(data)
    if found is None:
        if len(_ids) >= _IDS_KEPT:
            _ids.clear()
        found = _ids[data] = uuid.UUID(bytes=data)
    return found


def check_records(records: memoryview | None, version: int) -> memoryview:
    """Exactly one batch of the current format, in a compression that the version knows. Raises Refused."""
    if records is None or len(records) < _HEADER_BYTES:
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
        if length + _OVERHEAD_BYTES > len(records) or length < _HEADER_BYTES - _OVERHEAD_BYTES:
            what = f"a record batch of {length + _OVERHEAD_BYTES} bytes in {len(records)}"
        else:
            what = "more than one record batch for a partition"
        raise Refused(ErrorCode.invalid_record, f"{what}: produce v{version} takes exactly one whole batch")
    if records[_ATTRIBUTES_LOW_AT] & _CODEC_MASK == _ZSTD and version < _ZSTD_FROM_VERSION:
        raise Refused(ErrorCode.unsupported_compression_type, f"zstd needs produce v7 or later, this is v{version}")
    return records
