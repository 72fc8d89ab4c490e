"""What a leader demands of a batch before it becomes part of the log. Pure: bytes and rules in, the batch to append
out.

Almost every batch passes on its header alone and is appended as it came. It is opened only where a topic asks for more
than a header can show: keys on a compacted topic, a lower bound for timestamps, another compression than the
producer's. Kafka walks the records of every uncompressed batch; here a header whose checksum holds is believed,
because opening each record would cost a hundred times the append (ARCHITECTURE: batches stay bytes).

Mirrors Kafka's LogValidator and its error codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.records.batch import NO_SEQUENCE, NO_TIMESTAMP, BatchView, TimestampType, check_extent
from headrace.records.builder import build_batch
from headrace.records.compression import Codec
from headrace.records.reader import iter_records, read_records

UNBOUNDED_MS: Final = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class BatchRules:
    """A topic's demands. `codec` None keeps whatever the producer chose."""

    keys_required: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = UNBOUNDED_MS
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    level: int | None = None


def single_batch(data: memoryview) -> BatchView:
    """The one batch that a produce request may carry for a partition, its extent and checksum checked."""
    if len(data) == 0:
        raise Refused(ErrorCode.invalid_record, "the record data is empty: a partition needs one batch")
    size = check_extent(data, 0)
    if size != len(data):
        raise Refused(
            ErrorCode.invalid_record,
            f"{len(data) - size} bytes follow the first batch: a partition takes one batch per request",
        )
    batch = BatchView(data)
    batch.check_crc()
    return batch


def check_shape(batch: BatchView, *, from_client: bool) -> None:
    """Header fields that contradict each other or that a client may not set."""
    count = batch.record_count
    if count <= 0:
        raise Refused(ErrorCode.invalid_record, f"a batch with {count} records: at least one is needed")
    if batch.last_offset_delta != count - 1:
        raise Refused(
            ErrorCode.invalid_record,
            f"a batch of {count} records spans {batch.last_offset_delta + 1} offsets: must be 0 to {count - 1}",
        )
    if batch.attributes & 0x07 > Codec.ZSTD:
        raise CorruptBatch(f"compression codec {batch.attributes & 0x07}: must be 0 to 4")
    if not from_client:
        return
    if batch.is_control:
        raise Refused(ErrorCode.invalid_record, "a client sent a control batch: only coordinators write these")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise Refused(
            ErrorCode.invalid_record,
            f"sequence {batch.base_sequence} with producer id {batch.producer_id}: sequences start at 0",
        )
    if batch.is_transactional and batch.producer_id < 0:
        raise Refused(
            ErrorCode.invalid_record, "a transactional batch without a producer id: call InitProducerId first"
        )


def admit(batch: BatchView, rules: BatchRules, now_ms: int, *, from_client: bool) -> BatchView:
    """The batch to append: the same one, patched where the topic keeps append time, or a new one where it must be
    rebuilt.
    """
    check_shape(batch, from_client=from_client)
    if from_client and (
        rules.keys_required
        or rules.timestamp_before_max_ms != UNBOUNDED_MS
        or (rules.codec is not None and rules.codec != batch.attributes & 0x07)
    ):
        batch = _admit_opened(batch, rules, now_ms)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        batch.patch_log_append_time(now_ms)
    elif from_client:
        if batch.attributes & 0x08:
            raise Refused(
                ErrorCode.invalid_timestamp, "a client sent timestamps as append time: only brokers set these"
            )
        latest = batch.max_timestamp_ms
        if latest - now_ms > rules.timestamp_after_max_ms:
            raise _outside(latest, rules, now_ms)
    return batch


def _admit_opened(batch: BatchView, rules: BatchRules, now_ms: int) -> BatchView:
    oldest_ms = (
        now_ms - rules.timestamp_before_max_ms if rules.timestamp_type is TimestampType.CREATE_TIME else NO_TIMESTAMP
    )
    for delta, record in enumerate(iter_records(batch)):
        if record.offset != batch.base_offset + delta:
            raise Refused(
                ErrorCode.invalid_record, f"record {delta} has offset {record.offset - batch.base_offset} in its batch"
            )
        if rules.keys_required and record.key is None:
            raise Refused(
                ErrorCode.invalid_record, f"record {delta} has no key: a compacted topic needs one in every record"
            )
        if NO_TIMESTAMP < record.timestamp_ms < oldest_ms:
            raise _outside(record.timestamp_ms, rules, now_ms)
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


def _outside(timestamp_ms: int, rules: BatchRules, now_ms: int) -> Refused:
    return Refused(
        ErrorCode.invalid_timestamp,
        f"timestamp {timestamp_ms} is more than {rules.timestamp_before_max_ms} ms before or "
        f"{rules.timestamp_after_max_ms} ms after the broker's {now_ms}: "
        "see message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    )
