"""Control records: the markers that end a transaction in a partition.

key    version i16 | type i16 (0 abort, 1 commit, 2 leader change, …)
value  version i16 | coordinator epoch i32          (of a transaction marker)
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.reader import opened_section, read_records
from headrace.records.varint import read_varint

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ControlRecord:
    type: ControlType
    coordinator_epoch: int

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ControlType.ABORT, ControlType.COMMIT)


def build_end_txn_marker(
    commit: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    record = Record(_KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch), timestamp_ms=timestamp_ms)
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_control(record: Record) -> ControlRecord:
    """Decodes a control record. A type or version that Headrace does not know is UNKNOWN; readers skip it."""
    kind = _type_in(record.key, record.offset)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(kind, -1)
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptBatch(f"control record at offset {record.offset}: its value is not six bytes")
    return ControlRecord(kind, _VALUE.unpack_from(record.value)[1])


def control_of(batch: BatchView) -> ControlRecord | None:
    """The control record of a control batch. None for an emptied marker: compaction removed the record, and kept the
    batch because it is the last one of its producer. Raises CorruptBatch if the record cannot be read."""
    records = read_records(batch)
    return read_control(records[0]) if records else None


def control_type(batch: BatchView) -> ControlType | None:
    """The type of a control batch, from the key of its first record. None for an emptied marker."""
    if batch.record_count == 0:
        return None
    section = opened_section(batch)
    # Length, attributes, timestamp delta, offset delta, length of the key.
    _, at = read_varint(section, 0)
    _, at = read_varint(section, at + 1)
    _, at = read_varint(section, at)
    length, at = read_varint(section, at)
    return _type_in(section[at : at + max(length, 0)], batch.base_offset)


def _type_in(key: bytes | None, offset: int) -> ControlType:
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(f"control record at offset {offset}: its key is not four bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"control record at offset {offset}: key version {version}")
    return ControlType(kind) if kind in ControlType._value2member_map_ else ControlType.UNKNOWN
