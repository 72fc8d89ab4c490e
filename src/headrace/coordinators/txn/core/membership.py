"""Which partitions belong to the open transaction: adding them, and verifying one for its partition leader.

Classic producers add partitions themselves (AddPartitionsToTxn v0–3, AddOffsetsToTxn). The partition leader verifies
that the partition was added before it appends the first batch of a transaction. Otherwise a batch that is delayed past
the end of its transaction would open one that never ends (KIP-890). For version 2 producers the leader adds partitions.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.coordinators.txn.core.transaction import Answer, Decision, Transaction, TransactionState, refusal
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition


def add_partitions(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Decision:
    if current is not None and current.state.is_prepared:
        # Not fenced: the answer to EndTxn gave the producer an epoch or id that takes effect at the completion.
        return refusal(ErrorCode.concurrent_transactions)
    error = _standing(current, producer_id, producer_epoch)
    if error is not ErrorCode.none or current is None:
        return refusal(error)
    ongoing = current.state is TransactionState.ONGOING
    if ongoing and current.partitions.issuperset(partitions):
        return Decision(Answer())
    after = current.moved(
        TransactionState.ONGOING,
        now_ms,
        partitions=current.partitions.union(partitions),
        started_at_ms=current.started_at_ms if ongoing else now_ms,
        client_version=client_version,
    )
    return Decision(Answer(), after)


def verify_partitions(
    current: Transaction | None, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    error = _standing(current, producer_id, producer_epoch)
    if error is not ErrorCode.none or current is None:
        return dict.fromkeys(partitions, error)
    return {p: ErrorCode.none if p in current.partitions else ErrorCode.transaction_abortable for p in partitions}


def _standing(current: Transaction | None, producer_id: int, producer_epoch: int) -> ErrorCode:
    if current is None or current.producer_id != producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if current.producer_epoch != producer_epoch:
        return ErrorCode.producer_fenced
    if current.state.is_prepared:
        return ErrorCode.concurrent_transactions
    return ErrorCode.none
