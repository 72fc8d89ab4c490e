"""Validation of a batch before the leader appends it. Pure: takes bytes and rules, returns the batch to append.

For almost every batch the leader checks only the header and appends the batch unchanged. It reads the records only if
the topic requires something that the header does not show: keys on a compacted topic, a lower bound for timestamps,
another compression than the producer's, or readable records (`validate.records`). Kafka reads the records of every
batch. Headrace trusts a header with a valid checksum, because reading each record would cost a hundred times the append
(ARCHITECTURE: batches stay bytes).

Mirrors Kafka's LogValidator and its error codes.
"""

from __future__ import annotations

from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchView,
    TimestampType,
    check_extent,
)
from headrace.records.builder import build_batch
from headrace.records.compression import Codec
from headrace.records.reader import SMALLEST_BODY_BYTES, iter_records, read_records
from headrace.records.unreadable import UnreadableBatch
from headrace.records.varint import read_varint

# Compared for every batch: comparing an int is cheaper than comparing an enum member.
_LAST_CODEC: Final = int(Codec.ZSTD)
UNBOUNDED_MS: Final = 0x7FFFFFFFFFFFFFFF
# Bytes up to the magic, and the smallest record of the oldest format. Kafka rejects a shorter length as corrupt.
_LENGTH_AND_MAGIC_BYTES: Final = 17
_SMALLEST_OLD_RECORD_BYTES: Final = 14


@dataclass(frozen=True, slots=True)
class BatchRules:
    """What a topic requires of a batch. With `codec` None the leader keeps the producer's compression."""

    keys_required: bool = False
    records_read: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = UNBOUNDED_MS
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    level: int | None = None


class RecordsRefused(Refused):
    """A batch that is refused because of some records. `record_errors` has their indexes and the reason (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, records: list[int]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple((place, message) for place in records)


def single_batch(data: memoryview) -> BatchView:
    """The one batch that a produce request may carry for a partition, after a check of its size and checksum.

    Incomplete bytes after it are dropped, as Kafka does.
    """
    if len(data) >= HEADER_BYTES:
        batch = BatchView(data)
        if batch.magic == CURRENT_MAGIC and batch.batch_length == len(data) - LOG_OVERHEAD_BYTES:
            batch.check_crc()
            return batch
    batch = BatchView(whole_batch(data))
    batch.check_crc()
    return batch


def whole_batch(data: memoryview) -> memoryview:
    """The bytes of the one batch in `data`, without incomplete bytes after it. Does not check the checksum."""
    size = _whole_size(data, 0)
    if size is None:
        raise Refused(ErrorCode.invalid_record, f"{len(data)} bytes do not hold a whole batch: a partition needs one")
    if size != len(data) and _whole_size(data, size) is not None:
        raise Refused(ErrorCode.invalid_record, "two batches for one partition: a request carries exactly one")
    return data[:size]


def _whole_size(data: memoryview, position: int) -> int | None:
    """The size of the batch at `position`, or None if it is incomplete. Raises if the bytes cannot begin a batch."""
    there = len(data) - position
    if there < _LENGTH_AND_MAGIC_BYTES:
        return None
    size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
    magic = data[position + 16]
    if magic > CURRENT_MAGIC or size < LOG_OVERHEAD_BYTES + _SMALLEST_OLD_RECORD_BYTES:
        raise CorruptBatch(
            f"batch at byte {position}: length {size - LOG_OVERHEAD_BYTES} and magic {magic} make no batch"
        )
    if size > there:
        return None
    if magic < CURRENT_MAGIC:
        # Kafka's answer to produce requests with a message format that it no longer supports.
        raise Refused(
            ErrorCode.invalid_record, f"message format {magic} is no longer taken, use a client that writes format 2"
        )
    return check_extent(data, position)


def check_shape(batch: BatchView, *, from_client: bool) -> None:
    """Rejects header fields that contradict each other or that a client must not set."""
    count = batch.record_count
    if count <= 0:
        raise Refused(ErrorCode.invalid_record, f"a batch with {count} records: at least one is needed")
    if batch.last_offset_delta != count - 1:
        raise Refused(
            ErrorCode.invalid_record,
            f"a batch of {count} records spans {batch.last_offset_delta + 1} offsets: must be 0 to {count - 1}",
        )
    attributes = batch.attributes
    codec = attributes & CODEC_MASK
    if codec > _LAST_CODEC:
        raise CorruptBatch(f"compression codec {codec}: must be 0 to 4")
    if not from_client:
        return
    if batch.base_offset != 0:
        raise Refused(ErrorCode.invalid_record, f"a client's batch begins at offset {batch.base_offset}: must be 0")
    if attributes & CONTROL_BIT:
        raise Refused(ErrorCode.invalid_record, "a client sent a control batch: only coordinators write these")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise Refused(
            ErrorCode.invalid_record,
            f"sequence {batch.base_sequence} with producer id {batch.producer_id}: sequences start at 0",
        )
    if attributes & TRANSACTIONAL_BIT and batch.producer_id < 0:
        raise Refused(
            ErrorCode.invalid_record, "a transactional batch without a producer id: call InitProducerId first"
        )
    if not codec:
        _check_first_record(batch, count)


def _check_first_record(batch: BatchView, count: int) -> None:
    """Checks the length of the first record only. Random bytes or a wrong count rarely pass, and the check is cheap."""
    start = batch.position + HEADER_BYTES
    end = batch.position + batch.batch_length + LOG_OVERHEAD_BYTES
    length, at = read_varint(batch.buffer, start)
    left = end - at - length
    if length < SMALLEST_BODY_BYTES or left < (count - 1) * (SMALLEST_BODY_BYTES + 1) or (count == 1 and left):
        raise Refused(
            ErrorCode.invalid_record, f"{end - start} bytes do not hold {count} records of which the first has {length}"
        )


def admit(batch: BatchView, rules: BatchRules, now_ms: int, *, from_client: bool) -> BatchView:
    """The batch to append: the same one, patched if the topic uses append time, or a new one if it must be rebuilt.
    Raises INVALID_RECORD if records must be read and cannot be. After that error clients give up; after CORRUPT_MESSAGE
    they would retry the same bytes until their timeout.
    """
    try:
        return _admit(batch, rules, now_ms, from_client=from_client)
    except UnreadableBatch as fault:
        raise Refused(ErrorCode.invalid_record, f"the records of the batch cannot be read: {fault.why}") from None


def _admit(batch: BatchView, rules: BatchRules, now_ms: int, *, from_client: bool) -> BatchView:
    check_shape(batch, from_client=from_client)
    if from_client and (
        rules.keys_required
        or rules.records_read
        or rules.timestamp_before_max_ms != UNBOUNDED_MS
        or (rules.codec is not None and rules.codec != batch.attributes & CODEC_MASK)
    ):
        batch = _admit_opened(batch, rules, now_ms)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        batch.patch_log_append_time(now_ms)
    elif from_client:
        if batch.attributes & TIMESTAMP_TYPE_BIT:
            batch.patch_create_time()
        if batch.max_timestamp_ms - now_ms > rules.timestamp_after_max_ms:
            _check_latest(batch, rules, now_ms)
    return batch


def _check_latest(batch: BatchView, rules: BatchRules, now_ms: int) -> None:
    """Refuses a batch with a timestamp too far in the future. If only the header's max timestamp is wrong, it corrects
    it from the records.
    """
    stamps = [record.timestamp_ms for record in iter_records(batch)]
    latest_ms = max(stamps)
    if latest_ms - now_ms > rules.timestamp_after_max_ms:
        late = [delta for delta, stamp in enumerate(stamps) if stamp - now_ms > rules.timestamp_after_max_ms]
        raise _outside(latest_ms, rules, now_ms, late)
    batch.patch_create_time(latest_ms)


def _admit_opened(batch: BatchView, rules: BatchRules, now_ms: int) -> BatchView:
    oldest_ms = (
        now_ms - rules.timestamp_before_max_ms if rules.timestamp_type is TimestampType.CREATE_TIME else NO_TIMESTAMP
    )
    without_key = []
    for delta, record in enumerate(iter_records(batch)):
        if record.offset != batch.base_offset + delta:
            raise Refused(
                ErrorCode.invalid_record, f"record {delta} has offset {record.offset - batch.base_offset} in its batch"
            )
        if rules.keys_required and record.key is None:
            without_key.append(delta)
        if NO_TIMESTAMP < record.timestamp_ms < oldest_ms:
            raise _outside(record.timestamp_ms, rules, now_ms, [delta])
    if without_key:
        why = f"record {without_key[0]} has no key: a compacted topic needs one in every record"
        raise RecordsRefused(ErrorCode.invalid_record, why, without_key)
    if rules.codec is None or rules.codec == batch.codec:
        return batch
    return recompressed(batch, rules.codec, rules.level)


def recompressed(batch: BatchView, codec: Codec, level: int | None = None) -> BatchView:
    data = build_batch(
        read_records(batch),
        base_offset=batch.base_offset,
        codec=codec,
        level=level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence if batch.producer_id >= 0 else NO_SEQUENCE,
        transactional=batch.is_transactional,
        control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
    )
    return BatchView(memoryview(bytearray(data)))


def _outside(timestamp_ms: int, rules: BatchRules, now_ms: int, records: list[int]) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.invalid_timestamp,
        f"timestamp {timestamp_ms} is more than {rules.timestamp_before_max_ms} ms before or "
        f"{rules.timestamp_after_max_ms} ms after the broker's {now_ms}: "
        "see message.timestamp.before.max.ms and message.timestamp.after.max.ms",
        records,
    )
