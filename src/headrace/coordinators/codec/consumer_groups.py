"""Consumer groups (KIP-848): record types 3 to 8 and 16, values of version 0.

 3 ConsumerGroupMetadata           the group epoch and a hash of its topics' metadata
 4 ConsumerGroupPartitionMetadata  only in logs of Kafka before 4.1: skipped, and removed by a tombstone
 5 ConsumerGroupMemberMetadata     subscription and address of a member
 6 ConsumerGroupTargetAssignmentMetadata  the epoch of the target
 7 ConsumerGroupTargetAssignmentMember    the target of one member
 8 ConsumerGroupCurrentMemberAssignment   partitions that a member owns or revokes now
16 ConsumerGroupRegularExpression  the topics that an expression matched
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.coordinators.codec.primitives import (
    Reader,
    compact_bytes,
    compact_int32s,
    compact_nullable_string,
    compact_string,
    compact_strings,
    int16,
    int32,
    int64,
    key_of,
    read_version,
    tagged,
    uuid_bytes,
    uvarint,
)
from headrace.kernel.dataclass import dataclass

GROUP_METADATA: Final = 3
PARTITION_METADATA: Final = 4
MEMBER_METADATA: Final = 5
TARGET_METADATA: Final = 6
TARGET_MEMBER: Final = 7
CURRENT_ASSIGNMENT: Final = 8
REGULAR_EXPRESSION: Final = 16

# Topic id → its partitions with, where known, the epoch at which each was assigned (-1: not known).
TopicPartitions = Mapping[uuid.UUID, Iterable[int]]
EpochedPartitions = Mapping[uuid.UUID, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Data of a classic member in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: EpochedPartitions
    pending_revocation: EpochedPartitions


def key(record_type: int, group: str, *words: str) -> bytes:
    return key_of(record_type, group, *words)


def group_metadata_value(epoch: int, metadata_hash: int = 0) -> bytes:
    return int16(0) + int32(epoch) + tagged({0: int64(metadata_hash)} if metadata_hash else None)


def read_group_metadata_value(data: bytes) -> tuple[int, int]:
    """(epoch, metadata hash)"""
    _, reader = read_version(data, range(1), "ConsumerGroupMetadataValue")
    epoch = reader.int32()
    found = reader.tagged().get(0)
    return epoch, 0 if found is None else int.from_bytes(found, "big", signed=True)


def member_metadata_value(member: MemberMetadata) -> bytes:
    # A nullable struct begins with a presence byte. The field must be written as absent: Kafka takes a member without
    # the field for a classic member.
    classic = b"\0"
    if member.classic is not None:
        parts = [int32(member.classic.session_timeout_ms), uvarint(len(member.classic.protocols) + 1)]
        for name, metadata in member.classic.protocols:
            parts += (compact_string(name), compact_bytes(metadata), tagged())
        classic = b"\1" + b"".join(parts) + tagged()
    return b"".join(
        (
            int16(0),
            compact_nullable_string(member.instance_id),
            compact_nullable_string(member.rack_id),
            compact_string(member.client_id),
            compact_string(member.client_host),
            compact_strings(member.topic_names),
            compact_string(member.topic_regex or ""),
            int32(member.rebalance_timeout_ms),
            compact_nullable_string(member.server_assignor),
            tagged({0: classic}),
        )
    )


def read_member_metadata_value(data: bytes) -> MemberMetadata:
    _, reader = read_version(data, range(1), "ConsumerGroupMemberMetadataValue")
    instance_id, rack_id = reader.compact_nullable_string(), reader.compact_nullable_string()
    client_id, client_host = reader.compact_string(), reader.compact_string()
    names, regex = tuple(reader.compact_strings()), reader.compact_nullable_string() or None
    timeout, assignor = reader.int32(), reader.compact_nullable_string()
    classic = _read_classic(reader.tagged().get(0))
    return MemberMetadata(instance_id, rack_id, client_id, client_host, names, regex, timeout, assignor, classic)


def _read_classic(data: bytes | None) -> ClassicMemberMetadata | None:
    if data is None:
        return None
    reader = Reader(data)
    if reader.int8() < 1:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.compact_count()):
        protocols.append((reader.compact_string(), reader.compact_bytes()))
        reader.tagged()
    return ClassicMemberMetadata(session_timeout_ms, tuple(protocols))


def target_metadata_value(assignment_epoch: int, timestamp_ms: int = 0) -> bytes:
    return int16(0) + int32(assignment_epoch) + tagged({0: int64(timestamp_ms)} if timestamp_ms else None)


def read_target_metadata_value(data: bytes) -> tuple[int, int]:
    """(assignment epoch, when it was made)"""
    _, reader = read_version(data, range(1), "ConsumerGroupTargetAssignmentMetadataValue")
    epoch = reader.int32()
    found = reader.tagged().get(0)
    return epoch, 0 if found is None else int.from_bytes(found, "big", signed=True)


def target_member_value(partitions: TopicPartitions) -> bytes:
    parts = [int16(0), uvarint(len(partitions) + 1)]
    for topic_id, indexes in partitions.items():
        parts += (uuid_bytes(topic_id), compact_int32s(sorted(indexes)), tagged())
    parts.append(tagged())
    return b"".join(parts)


def read_target_member_value(data: bytes) -> dict[uuid.UUID, frozenset[int]]:
    _, reader = read_version(data, range(1), "ConsumerGroupTargetAssignmentMemberValue")
    found: dict[uuid.UUID, frozenset[int]] = {}
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        found[topic_id] = frozenset(reader.compact_int32s())
        reader.tagged()
    return found


def current_assignment_value(current: CurrentAssignment) -> bytes:
    return b"".join(
        (
            int16(0),
            int32(current.member_epoch),
            int32(current.previous_member_epoch),
            bytes((current.state,)),
            _epoched(current.assigned),
            _epoched(current.pending_revocation),
            tagged(),
        )
    )


def _epoched(partitions: EpochedPartitions) -> bytes:
    parts = [uvarint(len(partitions) + 1)]
    for topic_id, epochs in partitions.items():
        indexes = sorted(epochs)
        known = [epochs[i] for i in indexes]
        tags = {0: compact_int32s(known)} if any(epoch >= 0 for epoch in known) else None
        parts += (uuid_bytes(topic_id), compact_int32s(indexes), tagged(tags))
    return b"".join(parts)


def read_current_assignment_value(data: bytes) -> CurrentAssignment:
    _, reader = read_version(data, range(1), "ConsumerGroupCurrentMemberAssignmentValue")
    member_epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    return CurrentAssignment(member_epoch, previous, state, _read_epoched(reader), _read_epoched(reader))


def _read_epoched(reader: Reader) -> dict[uuid.UUID, dict[int, int]]:
    found: dict[uuid.UUID, dict[int, int]] = {}
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        indexes = reader.compact_int32s()
        tags = reader.tagged()
        epochs = Reader(tags[0]).compact_int32s() if 0 in tags else []
        if len(epochs) != len(indexes):
            epochs = [-1] * len(indexes)
        found[topic_id] = dict(zip(indexes, epochs, strict=True))
    return found


def regular_expression_value(topics: Iterable[str], version: int, timestamp_ms: int) -> bytes:
    return int16(0) + compact_strings(sorted(topics)) + int64(version) + int64(timestamp_ms) + tagged()


def read_regular_expression_value(data: bytes) -> tuple[frozenset[str], int, int]:
    """(topics, version of the cluster image they were matched in, when)"""
    _, reader = read_version(data, range(1), "ConsumerGroupRegularExpressionValue")
    return frozenset(reader.compact_strings()), reader.int64(), reader.int64()
