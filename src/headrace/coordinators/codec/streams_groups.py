"""Streams groups (KIP-1071): record types 17 and 19 to 22, values of version 0. Type 23 is in `streams_topology`.

17 StreamsGroupMetadata                  the group epoch, a hash of its topics, the validated topology epoch
19 StreamsGroupMemberMetadata            process, address, tags and endpoint of a member
20 StreamsGroupTargetAssignmentMetadata  the epoch of the target
21 StreamsGroupTargetAssignmentMember    the target of one member
22 StreamsGroupCurrentMemberAssignment   tasks that a member owns or revokes now
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from headrace.coordinators.codec.primitives import (
    Reader,
    compact_int32s,
    compact_nullable_string,
    compact_string,
    int16,
    int32,
    int64,
    read_version,
    tagged,
    uvarint,
)
from headrace.coordinators.codec.streams_topology import key_values, read_key_values

GROUP_METADATA: Final = 17
MEMBER_METADATA: Final = 19
TARGET_METADATA: Final = 20
TARGET_MEMBER: Final = 21
CURRENT_ASSIGNMENT: Final = 22

# Subtopology → its tasks, which are numbered by partition.
TaskIds = Mapping[str, frozenset[int]]
# Subtopology → task → the epoch at which it was assigned.
EpochedTaskIds = Mapping[str, Mapping[int, int]]


class Tasks(NamedTuple):
    active: TaskIds
    standby: TaskIds
    warmup: TaskIds


class EpochedTasks(NamedTuple):
    """Only active tasks have epochs: only they commit offsets."""

    active: EpochedTaskIds
    standby: TaskIds
    warmup: TaskIds


class StreamsGroupMetadata(NamedTuple):
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    assignment_configs: tuple[tuple[str, str], ...]


class Endpoint(NamedTuple):
    host: str
    port: int


class StreamsMemberMetadata(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[tuple[str, str], ...]  # by key


class StreamsCurrentAssignment(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: EpochedTasks
    pending_revocation: EpochedTasks


def group_metadata_value(group: StreamsGroupMetadata) -> bytes:
    tags = {1: key_values(group.assignment_configs)}
    if group.validated_topology_epoch != -1:
        tags[0] = int32(group.validated_topology_epoch)
    return int16(0) + int32(group.epoch) + int64(group.metadata_hash) + tagged(tags)


def read_group_metadata_value(data: bytes) -> StreamsGroupMetadata:
    _, reader = read_version(data, range(1), "StreamsGroupMetadataValue")
    epoch, metadata_hash = reader.int32(), reader.int64()
    tags = reader.tagged()
    validated = Reader(tags[0]).int32() if 0 in tags else -1
    configs = read_key_values(Reader(tags[1])) if 1 in tags else ()
    return StreamsGroupMetadata(epoch, metadata_hash, validated, configs)


def member_metadata_value(member: StreamsMemberMetadata) -> bytes:
    endpoint = b"\xff"  # a nullable struct begins with a presence byte
    if member.user_endpoint is not None:
        host, port = member.user_endpoint
        endpoint = b"\1" + compact_string(host) + port.to_bytes(2, "big") + tagged()
    return b"".join(
        (
            int16(0),
            compact_nullable_string(member.instance_id),
            compact_nullable_string(member.rack_id),
            compact_string(member.client_id),
            compact_string(member.client_host),
            int32(member.rebalance_timeout_ms),
            int32(member.topology_epoch),
            compact_string(member.process_id),
            endpoint,
            key_values(member.client_tags),
            tagged(),
        )
    )


def read_member_metadata_value(data: bytes) -> StreamsMemberMetadata:
    _, reader = read_version(data, range(1), "StreamsGroupMemberMetadataValue")
    return StreamsMemberMetadata(
        reader.compact_nullable_string(),
        reader.compact_nullable_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.int32(),
        reader.int32(),
        reader.compact_string(),
        _read_endpoint(reader),
        read_key_values(reader),
    )


def _read_endpoint(reader: Reader) -> Endpoint | None:
    if reader.int8() < 0:
        return None
    found = Endpoint(reader.compact_string(), reader.int16() & 0xFFFF)
    reader.tagged()
    return found


def target_member_value(tasks: Tasks) -> bytes:
    return int16(0) + b"".join(map(_task_ids, tasks)) + tagged()


def read_target_member_value(data: bytes) -> Tasks:
    _, reader = read_version(data, range(1), "StreamsGroupTargetAssignmentMemberValue")
    return Tasks(_read_task_ids(reader), _read_task_ids(reader), _read_task_ids(reader))


def current_assignment_value(current: StreamsCurrentAssignment) -> bytes:
    return b"".join(
        (
            int16(0),
            int32(current.member_epoch),
            int32(current.previous_member_epoch),
            bytes((current.state,)),
            *_epoched_tasks(current.assigned),
            *_epoched_tasks(current.pending_revocation),
            tagged(),
        )
    )


def read_current_assignment_value(data: bytes) -> StreamsCurrentAssignment:
    _, reader = read_version(data, range(1), "StreamsGroupCurrentMemberAssignmentValue")
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending = _read_epoched_tasks(reader, epoch), _read_epoched_tasks(reader, epoch)
    return StreamsCurrentAssignment(epoch, previous, state, assigned, pending)


def _epoched_tasks(tasks: EpochedTasks) -> tuple[bytes, bytes, bytes]:
    parts = [uvarint(len(tasks.active) + 1)]
    for subtopology, epochs in sorted(tasks.active.items()):
        indexes = sorted(epochs)
        at = compact_int32s([epochs[index] for index in indexes])
        parts += (compact_string(subtopology), compact_int32s(indexes), tagged({0: at}))
    return b"".join(parts), _task_ids(tasks.standby), _task_ids(tasks.warmup)


def _read_epoched_tasks(reader: Reader, member_epoch: int) -> EpochedTasks:
    active: dict[str, dict[int, int]] = {}
    for _ in range(reader.compact_count()):
        subtopology, indexes = reader.compact_string(), reader.compact_int32s()
        tags = reader.tagged()
        epochs = Reader(tags[0]).compact_int32s() if 0 in tags else []
        if len(epochs) != len(indexes):  # as in Kafka, for records of releases without epochs
            epochs = [member_epoch] * len(indexes)
        active[subtopology] = dict(zip(indexes, epochs, strict=True))
    return EpochedTasks(active, _read_task_ids(reader), _read_task_ids(reader))


def _task_ids(tasks: Mapping[str, Collection[int]]) -> bytes:
    parts = [uvarint(len(tasks) + 1)]
    for subtopology, indexes in sorted(tasks.items()):
        parts += (compact_string(subtopology), compact_int32s(sorted(indexes)), tagged())
    return b"".join(parts)


def _read_task_ids(reader: Reader) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for _ in range(reader.compact_count()):
        subtopology = reader.compact_string()
        found[subtopology] = frozenset(reader.compact_int32s())
        reader.tagged()
    return found
