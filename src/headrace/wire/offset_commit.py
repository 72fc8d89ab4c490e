"""Hand-written codec of OffsetCommit: no object per field of the request, no mapping per partition of the response.

Versions 2–10. v2–v4 retention time · v6 leader epoch · v7 static members · v8 flexible · v10 topic ids, no names.
Every consumer commits every few seconds, mostly one partition. The general codec would double the cost of a commit.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.wire.bounds import checked_count, checked_end, compact_text, legacy_text
from headrace.wire.codec import MalformedRequest, read_uvarint, skip_tagged_fields
from headrace.wire.schema_writer import write_uvarint
from headrace.wire.strings import compact_string, nullable_string

_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_PARTITION: Final = struct.Struct(">iq")
_PARTITION_EPOCH: Final = struct.Struct(">iqi")
_OUTCOME: Final = struct.Struct(">ih")
_OUTCOME_TAGS: Final = struct.Struct(">ihb")
_FRAME: Final = struct.Struct(">ii")

EPOCH_FROM: Final = 6
INSTANCE_FROM: Final = 7
FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
LAST_WITH_RETENTION: Final = 4

# The name up to v9, the sixteen bytes of the id from v10.
Topic = str | bytes


class PartitionCommit(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class OffsetCommitRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: list[tuple[Topic, list[PartitionCommit]]]


# Bytes behind the partition count in a commit of one partition without metadata: partition, offset, leader epoch,
# metadata (empty or null), and three empty lists of tagged fields.
_ONE_PARTITION_BYTES: Final = 20
_NO_METADATA: Final = (b"\1\0\0\0", b"\0\0\0\0")
# Bound of a cached request head: ids and names take a few dozen bytes each, and a client must not fill the memory.
_MAX_CACHED_HEAD_BYTES: Final = 512


def read_offset_commit_request(frame: memoryview, at: int, version: int) -> OffsetCommitRequest:
    """Raises MalformedRequest."""
    data = bytes(frame)
    if version >= FLEXIBLE_FROM and data[-4:] in _NO_METADATA:
        # Consecutive commits of a consumer differ only in the numbers at the end, so the head before them is cached.
        tail = len(data) - _ONE_PARTITION_BYTES
        is_one = 0 < tail - at <= _MAX_CACHED_HEAD_BYTES and data[tail - 1] == 2
        if is_one and (head := _single_partition_head(data[at:tail], version)) is not None:
            group_id, generation, member_id, instance_id, topic = head
            partition, offset, leader_epoch = _PARTITION_EPOCH.unpack_from(data, tail)
            commit = PartitionCommit(partition, offset, leader_epoch, "")
            return OffsetCommitRequest(group_id, generation, member_id, instance_id, -1, [(topic, [commit])])
    try:
        read = _read_flexible if version >= FLEXIBLE_FROM else _read_legacy
        request, end = read(data, at, version)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"an offset_commit v{version} request that cannot be read ({error})") from error
    if end > len(data):
        raise MalformedRequest(f"an offset_commit v{version} request that is longer than its frame")
    return request


def _read_legacy(data: bytes, at: int, version: int) -> tuple[OffsetCommitRequest, int]:
    group_id, at = legacy_text(data, at)
    (generation,) = _I32.unpack_from(data, at)
    member_id, at = legacy_text(data, at + 4)
    retention_ms, instance_id = -1, None
    if version <= LAST_WITH_RETENTION:
        (retention_ms,) = _I64.unpack_from(data, at)
        at += 8
    if version >= INSTANCE_FROM:
        if data[at] == 0xFF:
            at += 2
        else:
            instance_id, at = legacy_text(data, at)
    (topic_count,) = _I32.unpack_from(data, at)
    at += 4
    topics: list[tuple[Topic, list[PartitionCommit]]] = []
    for _ in range(checked_count(data, at, topic_count, 6)):
        name, at = legacy_text(data, at)
        (count,) = _I32.unpack_from(data, at)
        at += 4
        commits: list[PartitionCommit] = []
        for _ in range(checked_count(data, at, count, 14)):
            partition, offset = _PARTITION.unpack_from(data, at)
            at += 12
            leader_epoch = -1
            if version >= EPOCH_FROM:
                (leader_epoch,) = _I32.unpack_from(data, at)
                at += 4
            metadata = ""
            if data[at] == 0xFF:
                at += 2
            else:
                metadata, at = legacy_text(data, at)
            commits.append(PartitionCommit(partition, offset, leader_epoch, metadata))
        topics.append((name, commits))
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics), at


@lru_cache(maxsize=4_096)
def _single_partition_head(data: bytes, version: int) -> tuple[str, int, str, str | None, Topic] | None:
    """The decoded head of a request that has one topic with one partition, or None for any other request."""
    try:
        group_id, generation, member_id, instance_id, topic_count, at = _read_flexible_head(data, 0)
        topic, at = _read_topic(data, at, version)
        partition_count, at = read_uvarint(data, at)
    except (MalformedRequest, struct.error, IndexError, UnicodeDecodeError):
        return None
    if topic_count != 1 or partition_count - 1 != 1 or at != len(data):
        return None
    return group_id, generation, member_id, instance_id, topic


def _read_flexible_head(data: bytes, at: int) -> tuple[str, int, str, str | None, int, int]:
    """The fields before the topics: group, generation, member, instance, number of topics, position of the topics."""
    group_id, at = compact_text(data, at)
    (generation,) = _I32.unpack_from(data, at)
    member_id, at = compact_text(data, at + 4)
    instance_id = None
    if data[at]:
        instance_id, at = compact_text(data, at)
    else:
        at += 1
    topic_count, at = read_uvarint(data, at)
    return group_id, generation, member_id, instance_id, topic_count - 1, at


def _read_topic(data: bytes, at: int, version: int) -> tuple[Topic, int]:
    if version < TOPIC_IDS_FROM:
        return compact_text(data, at)
    end = checked_end(data, at, 16)
    return data[at:end], end


def _read_flexible(data: bytes, at: int, version: int) -> tuple[OffsetCommitRequest, int]:
    group_id, generation, member_id, instance_id, topic_count, at = _read_flexible_head(data, at)
    topics: list[tuple[Topic, list[PartitionCommit]]] = []
    for _ in range(checked_count(data, at, topic_count, 3)):
        topic, at = _read_topic(data, at, version)
        count, at = read_uvarint(data, at)
        commits: list[PartitionCommit] = []
        for _ in range(checked_count(data, at, count - 1, 18)):
            partition, offset, leader_epoch = _PARTITION_EPOCH.unpack_from(data, at)
            at += 16
            metadata = ""
            if data[at] > 1:
                metadata, at = compact_text(data, at)
            else:
                at += 1
            at = at + 1 if data[at] == 0 else skip_tagged_fields(data, at)
            commits.append(PartitionCommit(partition, offset, leader_epoch, metadata))
        at = at + 1 if data[at] == 0 else skip_tagged_fields(data, at)
        topics.append((topic, commits))
    at = at + 1 if data[at] == 0 else skip_tagged_fields(data, at)
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, -1, topics), at


def encode_offset_commit_response(
    version: int, correlation_id: int, topics: Sequence[tuple[Topic, Sequence[tuple[int, int]]]]
) -> bytearray:
    """The whole frame, length prefix included; per topic (partition, error code)."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        # Most commits of a consumer get the same response, so it is cached.
        out = bytearray(_single_partition_response(version, topics[0][0], *topics[0][1][0]))
        _I32.pack_into(out, 4, correlation_id)
        return out
    return _encode(version, correlation_id, topics)


@lru_cache(maxsize=4_096)
def _single_partition_response(version: int, topic: Topic, partition: int, error: int) -> bytes:
    return bytes(_encode(version, 0, [(topic, [(partition, error)])]))


def _encode(version: int, correlation_id: int, topics: Sequence[tuple[Topic, Sequence[tuple[int, int]]]]) -> bytearray:
    if version >= FLEXIBLE_FROM:
        # Length, correlation id, no tags in the header, no throttle time.
        out = bytearray(13)
        write_uvarint(out, len(topics) + 1)
        for topic, outcomes in topics:
            if isinstance(topic, bytes):
                out += topic
            else:
                compact_string(out, topic)
            write_uvarint(out, len(outcomes) + 1)
            for partition, error in outcomes:
                out += _OUTCOME_TAGS.pack(partition, error, 0)
            out.append(0)
        out.append(0)
    else:
        out = bytearray(12 if version >= 3 else 8)
        out += _I32.pack(len(topics))
        for topic, outcomes in topics:
            assert isinstance(topic, str)
            nullable_string(out, topic)
            out += _I32.pack(len(outcomes))
            for partition, error in outcomes:
                out += _OUTCOME.pack(partition, error)
    _FRAME.pack_into(out, 0, len(out) - 4, correlation_id)
    return out
