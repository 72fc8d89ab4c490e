"""EndTxn (key 26, versions 0–5): commit or abort; answered when the outcome can no longer change.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
v5 the answer carries the next producer id and epoch (KIP-890 part 2: transaction.version 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.transactions.fencing import as_old_clients_know_it
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


_FENCED_FROM_VERSION = 2
_EPOCH_BUMP_FROM_VERSION = 5


@dataclass(frozen=True)
class EndTxn(Handler):
    transactions: TransactionCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.END_TXN
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(transactional_id=Operation.WRITE)

    async def serve(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        context.access.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        answer = await self.transactions.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=2 if context.version >= _EPOCH_BUMP_FROM_VERSION else 0,
        )
        return {
            "error_code": as_old_clients_know_it(answer.error, context.version, _FENCED_FROM_VERSION),
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }
