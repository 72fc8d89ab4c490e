"""Committed offsets: OffsetCommitKey (types 0 and 1), OffsetCommitValue (versions 0–4; 4 is written).

v0 offset, metadata, commit time · v1 expiry time · v2 without it · v3 leader epoch · v4 flexible, topic id (tag 0).
This codec is performance-critical: every commit writes one record per partition, and most records that a shard loads
are offsets.
"""

from __future__ import annotations

import struct
import uuid
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.coordinators.codec.primitives import Reader, UnreadableRecord, key_of, read_version, uvarint

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hqi")
_INT64: Final = struct.Struct(">q")
_PLAIN: Final = struct.Struct(">hqibq3s16s")
_EXPIRING: Final = struct.Struct(">qq")


class OffsetValue(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: uuid.UUID | None = None


# Cached: a consumer commits the same partitions again and again.
@lru_cache(maxsize=16_384)
def offset_key(group: str, topic: str, partition: int) -> bytes:
    return key_of(OFFSET_COMMIT, group, topic) + _INT32.pack(partition)


@lru_cache(maxsize=16_384)
def read_offset_key(key: bytes) -> tuple[str, str, int]:
    try:
        at = 4 + (key[2] << 8 | key[3])
        topic_at = at + 2
        end = topic_at + (key[at] << 8 | key[at + 1])
        return str(key[4:at], "utf-8"), str(key[topic_at:end], "utf-8"), _INT32.unpack_from(key, end)[0]
    except (IndexError, struct.error) as error:
        raise UnreadableRecord("an offset key that ends too early") from error


# The last encoded values: a commit is replayed right after it is written, without decoding.
_last_data: bytes = b""
_last_value: OffsetValue | None = None


def offset_value(value: OffsetValue) -> bytes:
    global _last_data, _last_value
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = value
    if expire_ms < 0:  # the version with an expiry leaves the leader epoch out
        if metadata or topic_id is None:
            data = _encoded(value)
        else:
            # Nearly every commit; "no metadata" is the one byte of an empty text.
            data = _PLAIN.pack(4, offset, leader_epoch, 1, commit_ms, b"\x01\x00\x10", topic_id.bytes)
        _last_data, _last_value = data, value
        return data
    return _encoded(value)


def _encoded(value: OffsetValue) -> bytes:
    text = value.metadata.encode()
    if value.expire_timestamp_ms >= 0:
        # Only clients before Kafka 2.1 send an expiry; its field exists in version 1 alone.
        head = struct.pack(">hqh", 1, value.offset, len(text))
        return head + text + _EXPIRING.pack(value.commit_timestamp_ms, value.expire_timestamp_ms)
    head = _HEAD.pack(4, value.offset, value.leader_epoch) + uvarint(len(text) + 1) + text
    tail = _INT64.pack(value.commit_timestamp_ms)
    if value.topic_id is None:
        return head + tail + b"\0"
    return head + tail + b"\x01\x00\x10" + value.topic_id.bytes


def read_offset_value(data: bytes) -> OffsetValue:
    if data is _last_data and _last_value is not None:
        return _last_value
    length = data[14] - 1 if len(data) > 14 else -1
    if data[:2] == b"\0\4" and length < 0x7F and len(data) >= 24 + length >= 24:
        # Nearly every record: the current version with metadata that needs one byte for its length.
        _, offset, leader_epoch = _HEAD.unpack_from(data)
        at = 15 + length
        (commit_ms,) = _INT64.unpack_from(data, at)
        tags = data[at + 8 :]
        if tags == b"\0":
            return OffsetValue(offset, leader_epoch, str(data[15:at], "utf-8"), commit_ms)
        if len(tags) == 19 and tags[:3] == b"\1\0\x10" and any(tags[3:]):
            return OffsetValue(offset, leader_epoch, str(data[15:at], "utf-8"), commit_ms, -1, _uuid(tags[3:]))
    return _read_any_version(data)


# Cached: a log repeats the ids of a few topics, and creating a UUID costs as much as decoding the rest of a value.
@lru_cache(maxsize=4096)
def _uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _read_any_version(data: bytes) -> OffsetValue:
    version, reader = read_version(data, range(5), "OffsetCommitValue")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    topic_id = _topic_id(reader) if version >= 4 else None
    return OffsetValue(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def _topic_id(reader: Reader) -> uuid.UUID | None:
    found = reader.tagged().get(0)
    return None if found is None or not any(found) else uuid.UUID(bytes=found)
