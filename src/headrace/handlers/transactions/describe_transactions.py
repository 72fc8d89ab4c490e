"""DescribeTransactions (key 65, version 0): the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.transaction import Transaction
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.security.acl.model import Operation, ResourceType
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
    needs: ClassVar[Needs] = Needs(transactional_id=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> DescribeTransactionsResponse:
        return {
            "transaction_states": [await self._described(str(i), context.access) for i in request.transactional_ids]
        }

    async def _described(self, transactional_id: str, access: Access) -> TransactionState:
        try:
            access.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
            return _state_of(await self.transactions.describe(transactional_id), access)
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


def _state_of(found: Transaction, access: Access) -> TransactionState:
    visible = access.filter(Operation.DESCRIBE, ResourceType.TOPIC, {topic for topic, _ in found.partitions})
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        if topic in visible:
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
