"""Classic groups: GroupMetadataKey (type 2), GroupMetadataValue (versions 0–4; 3 is written, as Kafka 4.3 does)."""

from __future__ import annotations

from typing import Final

from headrace.coordinators.codec.primitives import (
    Reader,
    bytes_,
    int16,
    int32,
    int64,
    key_of,
    nullable_string,
    read_version,
    string,
)
from headrace.kernel.dataclass import dataclass

GROUP_METADATA: Final = 2


@dataclass(frozen=True, slots=True)
class ClassicMemberValue:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[ClassicMemberValue, ...]


def group_metadata_key(group: str) -> bytes:
    return key_of(GROUP_METADATA, group)


def group_metadata_value(value: GroupMetadataValue) -> bytes:
    parts = [
        int16(3),
        string(value.protocol_type),
        int32(value.generation),
        nullable_string(value.protocol),
        nullable_string(value.leader),
        int64(value.current_state_timestamp_ms),
        int32(len(value.members)),
    ]
    for member in value.members:
        parts += (
            string(member.member_id),
            nullable_string(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            int32(member.rebalance_timeout_ms),
            int32(member.session_timeout_ms),
            bytes_(member.subscription),
            bytes_(member.assignment),
        )
    return b"".join(parts)


def read_group_metadata_value(data: bytes) -> GroupMetadataValue:
    version, reader = read_version(data, range(5), "GroupMetadataValue")
    flexible = version >= 4
    text = reader.compact_string if flexible else reader.string
    maybe_text = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type = text()
    generation = reader.int32()
    protocol, leader = maybe_text(), maybe_text()
    timestamp = reader.int64() if version >= 2 else -1
    count = reader.compact_count() if flexible else reader.array_count()
    members = tuple(_read_member(reader, version) for _ in range(count))
    return GroupMetadataValue(protocol_type, generation, protocol, leader, timestamp, members)


def _read_member(reader: Reader, version: int) -> ClassicMemberValue:
    flexible = version >= 4
    text = reader.compact_string if flexible else reader.string
    maybe_text = reader.compact_nullable_string if flexible else reader.nullable_string
    data = reader.compact_bytes if flexible else reader.bytes_
    member_id = text()
    instance_id = maybe_text() if version >= 3 else None
    client_id, client_host = text(), text()
    rebalance_timeout = reader.int32() if version >= 1 else -1
    session_timeout = reader.int32()
    member = ClassicMemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout if rebalance_timeout < 0 else rebalance_timeout,
        session_timeout,
        data(),
        data(),
    )
    if flexible:
        reader.tagged()
    return member
