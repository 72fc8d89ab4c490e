"""ListTransactions (key 66, versions 0–2): the transactions that this broker coordinates (KIP-664).

v0 filters by state and producer id · v1 by duration (KIP-994) · v2 by a pattern over the transactional id (KIP-1152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.core.consumer.regex import Regex
from headrace.coordinators.group.core.consumer.regex_syntax import BadRegex
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.queries import ListFilter
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@dataclass(frozen=True)
class ListTransactions(Handler):
    transactions: TransactionCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(transactional_id=Operation.DESCRIBE)

    async def serve(self, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
        try:
            wanted = ListFilter(
                frozenset(int(i) for i in request.producer_id_filters),
                tuple(str(label) for label in request.state_filters),
                request.duration_filter,
                Regex(request.transactional_id_pattern) if request.transactional_id_pattern else None,
            )
            found = await self.transactions.transactions(wanted)
        except BadRegex as problem:
            raise Refused(ErrorCode.invalid_regular_expression, f"pattern {problem}") from problem
        ids = (transaction.transactional_id for transaction in found)
        visible = context.access.filter(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
        return {
            "error_code": 0,
            "unknown_state_filters": wanted.unknown_states,
            "transaction_states": [
                {
                    "transactional_id": t.transactional_id,
                    "producer_id": t.producer_id,
                    "transaction_state": t.state.label,
                }
                for t in found
                if t.transactional_id in visible
            ],
        }
