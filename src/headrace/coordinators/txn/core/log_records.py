"""Transactions as records of `__transaction_state`, encoded by `coordinators.codec.transactions`."""

from __future__ import annotations

from headrace.coordinators.codec.primitives import key_type
from headrace.coordinators.codec.transactions import (
    TRANSACTION_LOG,
    TransactionLogValue,
    read_transaction_log_key,
    read_transaction_log_value,
    transaction_log_key,
    transaction_log_value,
)
from headrace.coordinators.txn.core.transaction import Transaction, TransactionState
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record


def transactional_id_of(key: bytes) -> str | None:
    """None for an unknown key version, which is skipped as in Kafka."""
    return read_transaction_log_key(key) if key_type(key) == TRANSACTION_LOG else None


def record_of(transaction: Transaction) -> Record:
    value = TransactionLogValue(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        int(transaction.state),
        # Kafka writes null, not an empty list, for an id that has no transaction.
        None if transaction.state is TransactionState.EMPTY else _by_topic(transaction.partitions),
        transaction.updated_at_ms,
        transaction.started_at_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
        last_producer_epoch=transaction.last_producer_epoch,
    )
    return Record(transaction_log_key(transaction.transactional_id), transaction_log_value(value, flexible=True))


def tombstone_of(transactional_id: str) -> Record:
    return Record(transaction_log_key(transactional_id), None)


def transaction_of(transactional_id: str, value: bytes) -> Transaction:
    """Raises UnreadableRecord for an unknown version."""
    found = read_transaction_log_value(value)
    return Transaction(
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        TransactionState(found.status),
        found.last_update_timestamp_ms,
        found.start_timestamp_ms,
        frozenset(TopicPartition(topic, index) for topic, indexes in found.partitions or () for index in indexes),
        last_producer_epoch=found.last_producer_epoch,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return tuple((topic, tuple(indexes)) for topic, indexes in topics.items())
