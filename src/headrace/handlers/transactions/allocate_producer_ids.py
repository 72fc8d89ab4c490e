"""AllocateProducerIds (key 67, version 0): a block of producer ids for a broker (KIP-730). Brokers only, at the
controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.controller import Controller
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@dataclass(frozen=True)
class AllocateProducerIds(Handler):
    controller: Controller

    api_key: ClassVar[ApiKey] = ApiKey.ALLOCATE_PRODUCER_IDS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    is_advertised: ClassVar[bool] = False

    async def serve(self, request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
        first, count = await self.controller.allocate_producer_ids(int(request.broker_id), int(request.broker_epoch))
        return {"throttle_time": 0, "error_code": 0, "producer_id_start": first, "producer_id_len": count}
