"""DescribeTransactions (key 65, version 0): the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.transaction import Transaction
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        TransactionState,
    )


@dataclass(frozen=True)
class DescribeTransactions(Handler):
    transactions: TransactionCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    versions: ClassVar[range] = range(1)

    async def serve(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> DescribeTransactionsResponse:
        return {"transaction_states": [await self._described(str(i)) for i in request.transactional_ids]}

    async def _described(self, transactional_id: str) -> TransactionState:
        try:
            return _state_of(await self.transactions.describe(transactional_id))
        except Fault as fault:
            return {
                "error_code": int(fault.code),
                "transactional_id": transactional_id,
                "transaction_state": "",
                "transaction_timeout": 0,
                "transaction_start_time": 0,
                "producer_id": 0,
                "producer_epoch": 0,
                "topics": [],
            }


def _state_of(found: Transaction) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        topics.setdefault(topic, []).append(index)
    return {
        "error_code": 0,
        "transactional_id": found.transactional_id,
        "transaction_state": found.state.label,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.started_at_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }
