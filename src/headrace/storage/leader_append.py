"""Checks a batch before the leader writes it: validates it, checks its producer and detects duplicates."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import LOG_OVERHEAD_BYTES, BatchView, TimestampType
from headrace.records.control import control_of
from headrace.records.validation import admit, single_batch
from headrace.storage.core.producers import RecentBatch
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import ProducerState


class AppendOrigin(Enum):
    CLIENT = "client"
    REPLICATION = "replication"
    COORDINATOR = "coordinator"


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


def admitted_batch(
    partition: TopicPartition,
    config: LogConfig,
    data: memoryview | bytearray | bytes,
    now_ms: int,
    *,
    from_client: bool,
) -> BatchView:
    """The one batch in `data`, validated by the topic's rules, in a writable buffer."""
    view = data if type(data) is memoryview else memoryview(data)
    if view.readonly:
        view = memoryview(bytearray(view))
    _check_size(partition, config, len(view))
    if from_client:
        batch = admit(single_batch(view), config.rules, now_ms, from_client=True)
        # With the topic's compression it may be larger than with the producer's.
        _check_size(partition, config, batch.size_bytes)
    else:
        # This broker has just built this batch, so its shape and checksum are valid.
        batch = BatchView(view)
        if config.rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
            batch.patch_log_append_time(now_ms)
    if batch.batch_length + LOG_OVERHEAD_BYTES > config.segment_bytes:
        raise Refused(
            ErrorCode.record_list_too_large,
            f"{partition}: batch of {batch.size_bytes} bytes, segment.bytes={config.segment_bytes}",
        )
    return batch


def _check_size(partition: TopicPartition, config: LogConfig, size: int) -> None:
    if size > config.max_message_bytes:
        raise Refused(
            ErrorCode.message_too_large,
            f"{partition}: batch of {size} bytes, max.message.bytes={config.max_message_bytes}",
        )


def repeated_batch(
    partition: TopicPartition,
    producers: ProducerState,
    batch: BatchView,
    *,
    from_client: bool,
    verification: object | None,
    verify: bool,
    transaction_version: int,
) -> RecentBatch | None:
    """The earlier append if the batch is a duplicate, or None if it must be written. Raises if its producer may not
    write.
    """
    if batch.is_control:
        marker = control_of(batch)
        assert marker is not None, "this broker has just built this marker"
        producers.check_marker(batch.producer_id, batch.producer_epoch, marker.coordinator_epoch, transaction_version)
        return None
    if not from_client:
        return None
    if verify and batch.is_transactional:
        duplicate = _unverified_duplicate(partition, producers, batch, verification)
        if duplicate is not None:
            return duplicate
    return producers.check(batch)


def _unverified_duplicate(
    partition: TopicPartition, producers: ProducerState, batch: BatchView, verification: object | None
) -> RecentBatch | None:
    """Raises INVALID_TXN_STATE if the batch would open a transaction without a valid guard. In Kafka's order: a
    duplicate is answered, and an old epoch is reported, before the guard is looked at."""
    producer_id, epoch = batch.producer_id, batch.producer_epoch
    if (
        producers.has_ongoing(producer_id, epoch)
        or producers.verified(producer_id, verification)
        or producers.is_replaced(producer_id, epoch)
    ):
        return None
    duplicate = producers.duplicate_of(batch)
    if duplicate is None:
        raise Refused(ErrorCode.invalid_txn_state, f"producer {producer_id} has no transaction open on {partition}")
    return duplicate
