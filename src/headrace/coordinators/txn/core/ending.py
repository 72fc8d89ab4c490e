"""How a transaction ends: EndTxn of both protocols, the coordinator's own aborts, completion, expiry.

The coordinator answers EndTxn when the prepared state is in the log. From then on the outcome cannot change: the
coordinator sends markers to every partition until all are written, and then completes the transaction.

Version 2 raises the epoch with each end, so the epoch distinguishes a repeated request (epoch = ours − 1) from
the end of the next transaction (epoch = ours). Results when no transaction is open:

                   abort                     commit
                   repeated    present       repeated    present
    Empty          fenced      raise         fenced      invalid state
    CompleteAbort  same answer raise         invalid     invalid state
    CompleteCommit invalid     raise         same answer invalid state

An abort without any partition is legal there, because the producer cannot know whether its first batch arrived. Between
prepared and complete a version 2 request gets CONCURRENT_TRANSACTIONS: the producer has its next epoch or id before the
coordinator does, so a request that looks fenced or unknown may be valid a moment later. Mirrors Kafka's endTransaction
and endTransactionWithTV1.
"""

from __future__ import annotations

from headrace.coordinators.txn.core.transaction import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Answer,
    Decision,
    Transaction,
    TransactionState,
    refusal,
)
from headrace.kernel.errors import ErrorCode

_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
_PREPARE = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}


def end_transaction(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    client_version: int,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Decision:
    if current is None:
        return refusal(ErrorCode.invalid_producer_id_mapping)
    if client_version < EPOCH_BUMP_VERSION:
        return _end_classic(current, producer_id, producer_epoch, commit=commit, now_ms=now_ms)
    if current.state.is_prepared:
        return refusal(ErrorCode.concurrent_transactions)
    handed_over = (
        current.previous_producer_id == producer_id
        and current.producer_id != producer_id
        and producer_epoch == MAX_EPOCH - 1
        and current.producer_epoch == 0
    )
    if current.producer_id != producer_id and not handed_over:
        return refusal(ErrorCode.invalid_producer_id_mapping)
    repeated = handed_over or producer_epoch == current.producer_epoch - 1
    if not _known_epoch(current, producer_epoch, repeated):
        return refusal(ErrorCode.producer_fenced)
    if repeated:
        if current.state is not _COMPLETE[commit]:
            return refusal(ErrorCode.invalid_txn_state)
        return Decision(Answer(ErrorCode.none, current.producer_id, current.producer_epoch))
    if commit and current.state is not TransactionState.ONGOING:
        return refusal(ErrorCode.invalid_txn_state)
    return _prepared(current, commit, client_version, fresh_producer_id, now_ms)


def _known_epoch(current: Transaction, producer_epoch: int, repeated: bool) -> bool:
    complete = current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    return producer_epoch == current.producer_epoch or (repeated and complete)


def _prepared(
    current: Transaction, commit: bool, client_version: int, fresh_producer_id: int | None, now_ms: int
) -> Decision:
    next_producer_id = NO_PRODUCER_ID
    if current.epoch_is_exhausted:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        next_producer_id = fresh_producer_id
    after = current.moved(
        _PREPARE[commit],
        now_ms,
        producer_epoch=min(current.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=next_producer_id,
        client_version=client_version,
        started_at_ms=current.started_at_ms if current.state is TransactionState.ONGOING else now_ms,
    )
    # The producer continues with the id and epoch of the completed transaction.
    goes_on = completed(after, now_ms)
    return Decision(Answer(ErrorCode.none, goes_on.producer_id, goes_on.producer_epoch), after)


def _end_classic(current: Transaction, producer_id: int, producer_epoch: int, *, commit: bool, now_ms: int) -> Decision:
    if current.producer_id != producer_id:
        return refusal(ErrorCode.invalid_producer_id_mapping)
    if current.producer_epoch != producer_epoch:
        return refusal(ErrorCode.producer_fenced)
    if current.state is TransactionState.ONGOING:
        return Decision(Answer(), current.moved(_PREPARE[commit], now_ms, client_version=0))
    if current.state is _COMPLETE[commit]:
        return Decision(Answer())
    if current.state.is_prepared:
        return refusal(ErrorCode.concurrent_transactions)
    return refusal(ErrorCode.invalid_txn_state)


def aborted_by_coordinator(
    current: Transaction, server_version: int, now_ms: int, fresh_producer_id: int | None = None
) -> Transaction:
    """Aborts the open transaction after a timeout or for a new producer, and fences its current producer.

    The cluster's `transaction.version` decides the protocol, since no client asked. In version 2, when epochs run out,
    the abort switches to the fresh producer id, as EndTxn does; without one the next InitProducerId does.
    """
    bumps = server_version >= EPOCH_BUMP_VERSION
    hands_over = bumps and current.epoch_is_exhausted and fresh_producer_id is not None
    return current.moved(
        TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=min(current.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=current.producer_epoch if bumps else NO_PRODUCER_EPOCH,
        next_producer_id=fresh_producer_id if hands_over else NO_PRODUCER_ID,
        client_version=server_version if bumps else 0,
    )


def completed(prepared: Transaction, now_ms: int) -> Transaction:
    """Every marker is written."""
    committed = prepared.state is TransactionState.PREPARE_COMMIT
    producer_id, epoch = prepared.producer_id, prepared.producer_epoch
    if prepared.bumps_epochs and prepared.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = prepared.next_producer_id, 0
    return prepared.moved(
        _COMPLETE[committed],
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def has_timed_out(current: Transaction, now_ms: int) -> bool:
    return (
        current.state is TransactionState.ONGOING
        and current.timeout_ms != NO_TIMEOUT_MS
        and current.started_at_ms + current.timeout_ms < now_ms
    )


def has_expired(current: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """A transactional id that was unused for `expiration_ms` is deleted (a tombstone in the log)."""
    return current.state.is_at_rest and current.updated_at_ms <= now_ms - expiration_ms
