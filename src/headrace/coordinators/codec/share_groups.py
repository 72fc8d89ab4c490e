"""Share groups (KIP-932): record types 10 to 15 of `__consumer_offsets`, values of version 0.

10 ShareGroupMemberMetadata · 11 ShareGroupMetadata · 12 ShareGroupTargetAssignmentMetadata
13 ShareGroupTargetAssignmentMember · 14 ShareGroupCurrentMemberAssignment
15 ShareGroupStatePartitionMetadata (which partitions have share state)
Types 12 and 13 have the values of the consumer groups' types 6 and 7.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from headrace.coordinators.codec.primitives import (
    Reader,
    compact_int32s,
    compact_nullable_string,
    compact_string,
    compact_strings,
    int16,
    int32,
    int64,
    read_version,
    tagged,
    uuid_bytes,
    uvarint,
)
from headrace.kernel.dataclass import dataclass

MEMBER_METADATA: Final = 10
GROUP_METADATA: Final = 11
TARGET_METADATA: Final = 12
TARGET_MEMBER: Final = 13
CURRENT_ASSIGNMENT: Final = 14
STATE_PARTITION_METADATA: Final = 15

Partitions = Mapping[uuid.UUID, frozenset[int]]
NamedPartitions = Mapping[uuid.UUID, tuple[str, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class ShareMemberMetadata:
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShareCurrentAssignment:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Partitions


@dataclass(frozen=True, slots=True)
class StatePartitionMetadata:
    initializing: NamedPartitions = field(default_factory=dict)
    initialized: NamedPartitions = field(default_factory=dict)
    deleting: Mapping[uuid.UUID, str] = field(default_factory=dict)


def member_metadata_value(member: ShareMemberMetadata) -> bytes:
    return b"".join(
        (
            int16(0),
            compact_nullable_string(member.rack_id),
            compact_string(member.client_id),
            compact_string(member.client_host),
            compact_strings(member.topic_names),
            tagged(),
        )
    )


def read_member_metadata_value(data: bytes) -> ShareMemberMetadata:
    _, reader = read_version(data, range(1), "ShareGroupMemberMetadataValue")
    rack = reader.compact_nullable_string()
    return ShareMemberMetadata(rack, reader.compact_string(), reader.compact_string(), tuple(reader.compact_strings()))


def group_metadata_value(epoch: int, metadata_hash: int) -> bytes:
    return int16(0) + int32(epoch) + int64(metadata_hash) + tagged()


def read_group_metadata_value(data: bytes) -> tuple[int, int]:
    _, reader = read_version(data, range(1), "ShareGroupMetadataValue")
    return reader.int32(), reader.int64()


def current_assignment_value(current: ShareCurrentAssignment) -> bytes:
    parts = [
        int16(0),
        int32(current.member_epoch),
        int32(current.previous_member_epoch),
        bytes((current.state,)),
        uvarint(len(current.assigned) + 1),
    ]
    for topic_id, indexes in current.assigned.items():
        parts += (uuid_bytes(topic_id), compact_int32s(sorted(indexes)), tagged())
    parts.append(tagged())
    return b"".join(parts)


def read_current_assignment_value(data: bytes) -> ShareCurrentAssignment:
    _, reader = read_version(data, range(1), "ShareGroupCurrentMemberAssignmentValue")
    member_epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned: dict[uuid.UUID, frozenset[int]] = {}
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        assigned[topic_id] = frozenset(reader.compact_int32s())
        reader.tagged()
    return ShareCurrentAssignment(member_epoch, previous, state, assigned)


def state_partition_metadata_value(value: StatePartitionMetadata) -> bytes:
    parts = [int16(0), _named(value.initializing), _named(value.initialized), uvarint(len(value.deleting) + 1)]
    for topic_id, name in value.deleting.items():
        parts += (uuid_bytes(topic_id), compact_string(name), tagged())
    parts.append(tagged())
    return b"".join(parts)


def _named(topics: NamedPartitions) -> bytes:
    parts = [uvarint(len(topics) + 1)]
    for topic_id, (name, indexes) in topics.items():
        parts += (uuid_bytes(topic_id), compact_string(name), compact_int32s(sorted(indexes)), tagged())
    return b"".join(parts)


def read_state_partition_metadata_value(data: bytes) -> StatePartitionMetadata:
    _, reader = read_version(data, range(1), "ShareGroupStatePartitionMetadataValue")
    initializing, initialized = _read_named(reader), _read_named(reader)
    deleting: dict[uuid.UUID, str] = {}
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        deleting[topic_id] = reader.compact_string()
        reader.tagged()
    return StatePartitionMetadata(initializing, initialized, deleting)


def _read_named(reader: Reader) -> dict[uuid.UUID, tuple[str, frozenset[int]]]:
    found: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
    for _ in range(reader.compact_count()):
        topic_id, name = reader.uuid(), reader.compact_string()
        found[topic_id] = (name, frozenset(reader.compact_int32s()))
        reader.tagged()
    return found
