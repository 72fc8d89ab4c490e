"""InitProducerId: a producer takes over a transactional id, and the previous producer is fenced.

Three callers send similar requests and must be distinguished:
- a new producer (no expected id and epoch): always wins; the epoch rises, the last epoch is dropped;
- the present producer that recovers from an error (expected id and epoch are the present ones): the epoch rises and the
  old one is kept, because
- the same request again, whose answer was lost (expected epoch is the kept one), must get the same answer.
Every other caller is fenced. Mirrors Kafka's handleInitProducerId.
"""

from __future__ import annotations

from headrace.coordinators.txn.core.ending import aborted_by_coordinator
from headrace.coordinators.txn.core.transaction import (
    MAX_EPOCH,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    Answer,
    Decision,
    Transaction,
    TransactionState,
    refusal,
)
from headrace.kernel.errors import ErrorCode


def init_producer_id(
    current: Transaction | None,
    transactional_id: str,
    *,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    fresh_producer_id: int | None,
    server_version: int,
    now_ms: int,
) -> Decision:
    if current is None:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        # The id of this producer has expired; a new producer id is as safe for it as for a new
        # producer.
        begun = Transaction(
            transactional_id,
            fresh_producer_id,
            0,
            timeout_ms,
            TransactionState.EMPTY,
            now_ms,
            previous_producer_id=fresh_producer_id,
            client_version=0,
        )
        return Decision(Answer(ErrorCode.none, fresh_producer_id, 0), begun)
    if current.state.is_prepared:
        return refusal(ErrorCode.concurrent_transactions)
    if expected is not None and not _may_continue(current, expected):
        return refusal(ErrorCode.producer_fenced)
    if current.state is TransactionState.ONGOING:
        if current.epoch_is_exhausted and fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        # The open transaction ends first; no producer gets the epoch it ends with, the client's retry raises it
        # again.
        aborted = aborted_by_coordinator(current, server_version, now_ms, fresh_producer_id)
        return Decision(Answer(ErrorCode.concurrent_transactions), aborted)
    return _taken_over(current, timeout_ms, expected, fresh_producer_id, now_ms)


def _may_continue(current: Transaction, expected: tuple[int, int]) -> bool:
    producer_id, epoch = expected
    # The previous id with its last usable epoch: the answer that carried the new id may have been lost.
    handed_over = producer_id == current.previous_producer_id and epoch >= MAX_EPOCH - 1
    return producer_id == current.producer_id or handed_over


def _taken_over(
    current: Transaction,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Decision:
    epoch, last_epoch = current.producer_epoch, current.last_producer_epoch
    same_producer = expected is not None and expected == (current.producer_id, epoch)
    repeated = expected is not None and not same_producer and expected[1] == last_epoch
    if expected is not None and not same_producer and not repeated:
        return refusal(ErrorCode.producer_fenced)
    producer_id = current.producer_id
    # An abort by the coordinator may leave the last epoch behind, which no producer may use: switch to a new id then,
    # too.
    if current.epoch_is_exhausted:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        producer_id, next_epoch, next_last = fresh_producer_id, 0, epoch if same_producer else NO_PRODUCER_EPOCH
    elif repeated:
        next_epoch, next_last = epoch, last_epoch
    else:
        next_epoch, next_last = epoch + 1, epoch if same_producer else NO_PRODUCER_EPOCH
    after = current.moved(
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=next_epoch,
        last_producer_epoch=next_last,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_at_ms=-1,
    )
    return Decision(Answer(ErrorCode.none, producer_id, next_epoch), after)
