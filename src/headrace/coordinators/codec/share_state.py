"""Share state: ShareSnapshot (type 0) and ShareUpdate (type 1) of `__share_group_state`, versions 0.

A snapshot is the whole state of one share-partition; updates since then carry only what changed.
"""

from __future__ import annotations

import struct
import uuid
from typing import Final, NamedTuple

from headrace.coordinators.codec.primitives import (
    Reader,
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

SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1
_BATCH: Final = struct.Struct(">qqbh")


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareKey(NamedTuple):
    group_id: str
    topic_id: uuid.UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int = -1


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int = -1


def share_key(record_type: int, key: ShareKey) -> bytes:
    return key_of(record_type, key.group_id) + uuid_bytes(key.topic_id) + int32(key.partition)


def read_share_key(key: bytes) -> ShareKey:
    reader = Reader(key, 2)
    return ShareKey(reader.string(), reader.uuid(), reader.int32())


def share_snapshot_value(value: ShareSnapshot) -> bytes:
    head = struct.pack(
        ">hiiiqqq",
        0,
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.create_timestamp_ms,
        value.write_timestamp_ms,
    )
    return head + _batches(value.batches) + _complete_count(value.delivery_complete_count)


def share_update_value(value: ShareUpdate) -> bytes:
    head = int16(0) + int32(value.snapshot_epoch) + int32(value.leader_epoch) + int64(value.start_offset)
    return head + _batches(value.batches) + _complete_count(value.delivery_complete_count)


def read_share_snapshot_value(data: bytes) -> ShareSnapshot:
    _, reader = read_version(data, range(1), "ShareSnapshotValue")
    epochs = reader.int32(), reader.int32(), reader.int32()
    offsets = reader.int64(), reader.int64(), reader.int64()
    return ShareSnapshot(*epochs, *offsets, _read_batches(reader), _read_complete_count(reader))


def read_share_update_value(data: bytes) -> ShareUpdate:
    _, reader = read_version(data, range(1), "ShareUpdateValue")
    return ShareUpdate(
        reader.int32(), reader.int32(), reader.int64(), _read_batches(reader), _read_complete_count(reader)
    )


def _batches(batches: tuple[StateBatch, ...]) -> bytes:
    return uvarint(len(batches) + 1) + b"".join(_BATCH.pack(*batch) + b"\0" for batch in batches)


def _read_batches(reader: Reader) -> tuple[StateBatch, ...]:
    found = []
    for _ in range(reader.compact_count()):
        found.append(StateBatch(reader.int64(), reader.int64(), reader.int8(), reader.int16()))
        reader.tagged()
    return tuple(found)


def _complete_count(count: int) -> bytes:
    return tagged(None if count == -1 else {0: int32(count)})


def _read_complete_count(reader: Reader) -> int:
    found = reader.tagged().get(0)
    return -1 if found is None else int.from_bytes(found, "big", signed=True)
