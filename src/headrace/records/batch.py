"""A record batch (message format v2) as a view over bytes: its header read once, patched in place.

    0  base offset i64 | 8 length i32 | 12 partition leader epoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64
    43 producer id i64 | 51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records

The CRC covers everything from the attributes on. The broker can therefore set the base offset and the leader epoch
without computing the producer's checksum again: a batch stays bytes from the socket to the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from headrace.kernel.checksum import crc32c
from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.records.compression import Codec

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
# The length field does not count itself and the base offset.
LOG_OVERHEAD_BYTES: Final = 12
# Readers that look for a boundary need only base offset, length, magic and last offset delta.
CRC_START: Final = 21
LEADER_EPOCH_AT: Final = 12
RECORD_COUNT_AT: Final = 57
CURRENT_MAGIC: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
MAX_SEQUENCE: Final = 0x7FFFFFFF

_CODECS: Final = {codec.value: codec for codec in Codec}
_I64: Final = struct.Struct(">q")
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
_I16: Final = struct.Struct(">h")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_PLACE: Final = struct.Struct(">qii")


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchView:
    """One batch inside `buffer` at `position`. `buffer` must hold the whole batch; patching needs it writable."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp_ms",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def data(self) -> memoryview:
        """The whole batch."""
        return self.buffer[self.position : self.position + self.batch_length + LOG_OVERHEAD_BYTES]

    @property
    def records_section(self) -> memoryview:
        """The records, still compressed."""
        return self.buffer[self.position + HEADER_BYTES : self.position + self.batch_length + LOG_OVERHEAD_BYTES]

    @property
    def codec(self) -> Codec:
        found = _CODECS.get(self.attributes & CODEC_MASK)
        if found is None:
            raise CorruptBatch(f"compression codec {self.attributes & CODEC_MASK}: must be 0 to 4")
        return found

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the tombstones of this batch. The cleaner stores it in the base timestamp."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences count from 0 to 2³¹-1 and start again at 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    def computed_crc(self) -> int:
        checked = self.buffer[self.position + CRC_START : self.position + self.batch_length + LOG_OVERHEAD_BYTES]
        return int(crc32c(checked))

    def check_crc(self) -> None:
        at = self.position
        computed = crc32c(self.buffer[at + CRC_START : at + self.batch_length + LOG_OVERHEAD_BYTES])
        if computed != self.crc:
            raise CorruptBatch(
                f"batch at offset {self.base_offset}: checksum {self.crc:#010x}, its bytes give {computed:#010x}"
            )

    def patch_place(self, offset: int, leader_epoch: int) -> None:
        """Sets the base offset and the leader epoch of the batch."""
        _PLACE.pack_into(self.buffer, self.position, offset, self.batch_length, leader_epoch)
        self.base_offset, self.partition_leader_epoch = offset, leader_epoch

    def patch_log_append_time(self, now_ms: int) -> None:
        """Sets `now_ms` as the timestamp of every record and updates the checksum, which covers the timestamps."""
        attributes = self.attributes | TIMESTAMP_TYPE_BIT
        _I16.pack_into(self.buffer, self.position + 21, attributes)
        _I64.pack_into(self.buffer, self.position + 35, now_ms)
        self.attributes, self.max_timestamp_ms = attributes, now_ms
        self.seal()

    def patch_create_time(self, max_timestamp_ms: int | None = None) -> None:
        """Sets the timestamp type to create time, and the max timestamp if one is given."""
        self.attributes &= ~TIMESTAMP_TYPE_BIT
        if max_timestamp_ms is not None:
            self.max_timestamp_ms = max_timestamp_ms
        _I16.pack_into(self.buffer, self.position + 21, self.attributes)
        _I64.pack_into(self.buffer, self.position + 35, self.max_timestamp_ms)
        self.seal()

    def seal(self) -> None:
        """Computes the checksum of the present bytes and writes it into the header."""
        self.crc = self.computed_crc()
        _U32.pack_into(self.buffer, self.position + 17, self.crc)


def check_extent(buffer: memoryview, position: int) -> int:
    """The size of the batch at `position`. Raises a fault if the bytes there are not one whole v2 batch."""
    there = len(buffer) - position
    if there < LOG_OVERHEAD_BYTES + 5:
        raise CorruptBatch(f"batch at byte {position}: only {there} bytes are there, too few for a header")
    length = _I32.unpack_from(buffer, position + 8)[0]
    magic = buffer[position + 16]
    if magic in (0, 1):
        raise Refused(
            ErrorCode.unsupported_for_message_format,
            f"batch at byte {position}: message format {magic} is no longer taken, use a client that writes format 2",
        )
    if magic != CURRENT_MAGIC:
        raise CorruptBatch(f"batch at byte {position}: magic {magic} is not a message format")
    size: int = length + LOG_OVERHEAD_BYTES
    if size < HEADER_BYTES:
        raise CorruptBatch(f"batch at byte {position}: length {length} is less than a header")
    if size > there:
        raise CorruptBatch(f"batch at byte {position}: length {length} reaches past the {there} bytes that are there")
    return size


def batches(buffer: memoryview) -> Iterator[BatchView]:
    """Every batch in `buffer` in order. Raises CorruptBatch at a torn or invalid one. Does not check the CRC."""
    position, there = 0, len(buffer)
    while position < there:
        if there - position < HEADER_BYTES:
            check_extent(buffer, position)
        batch = BatchView(buffer, position)
        size = batch.batch_length + LOG_OVERHEAD_BYTES
        if batch.magic != CURRENT_MAGIC or not HEADER_BYTES <= size <= there - position:
            check_extent(buffer, position)
        yield batch
        position += size
