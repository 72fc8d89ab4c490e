"""UnregisterBroker (key 64, version 0): removes the registration of a broker that is gone for good (KIP-631).

A broker that is down stays registered and counts when replicas are placed. Headrace refuses to unregister a broker that
is running. Kafka unregisters it, and it registers again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@dataclass(frozen=True)
class UnregisterBroker(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.UNREGISTER_BROKER
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    async def serve(self, request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
        return await self.gateway.serve(request, context, lambda: self._unregister(request))

    async def _unregister(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        await self.gateway.controller.unregister_broker(int(request.broker_id))
        return {"throttle_time": 0, "error_code": 0, "error_message": None}
