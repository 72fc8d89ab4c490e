"""InitProducerId (key 22, versions 0–5): a producer id, and with a transactional id also its epoch.

v0–1 · v2 flexible · v3 the producer's current id and epoch, to recover from errors (KIP-360) · v4 PRODUCER_FENCED
v5 TRANSACTION_ABORTABLE (KIP-890)
Not implemented: v6, two-phase commit with an external coordinator (KIP-939), which Kafka itself does not enable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Answer
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.transactions.fencing import as_old_clients_know_it
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


_FENCED_FROM_VERSION = 4


@dataclass(frozen=True)
class InitProducerId(Handler):
    transactions: TransactionCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(
        transactional_id=Operation.WRITE, cluster=Operation.IDEMPOTENT_WRITE, topic=Operation.WRITE
    )

    async def serve(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        self._authorize(request.transactional_id, context.access)
        producer_id = request.producer_id
        epoch = request.producer_epoch
        if (producer_id == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH):
            answer = Answer(ErrorCode.invalid_request)
        else:
            expected = None if producer_id == NO_PRODUCER_ID else (producer_id, epoch)
            answer = await self.transactions.init_producer_id(
                request.transactional_id, millis(request.transaction_timeout), expected
            )
        return {
            "error_code": as_old_clients_know_it(answer.error, context.version, _FENCED_FROM_VERSION),
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }

    def _authorize(self, transactional_id: str | None, access: Access) -> None:
        """Raises Refused. A producer that may write to any topic at all may have an id without a transactional id."""
        if transactional_id is not None:
            access.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        elif not access.may_any(Operation.WRITE, ResourceType.TOPIC):
            access.require_cluster(Operation.IDEMPOTENT_WRITE)
