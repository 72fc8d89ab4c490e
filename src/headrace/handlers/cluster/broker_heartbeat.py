"""BrokerHeartbeat (key 63, versions 0–1): here only the request for a controlled shutdown.

Brokers only, at the controller. The ZooKeeper session decides whether a broker is alive, so the answer to any other
heartbeat only says whether the broker is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


@dataclass(frozen=True)
class BrokerHeartbeat(Handler):
    controller: Controller
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.BROKER_HEARTBEAT
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    is_advertised: ClassVar[bool] = False

    async def serve(self, request: BrokerHeartbeatRequest, context: RequestContext) -> BrokerHeartbeatResponse:
        may_stop = False
        if request.want_shut_down:
            may_stop = await self.controller.controlled_shutdown(int(request.broker_id), int(request.broker_epoch))
        image = self.view.current
        return {
            "throttle_time": 0,
            "error_code": 0,
            "is_caught_up": int(request.current_metadata_offset) >= image.version,
            "is_fenced": not image.is_alive(int(request.broker_id)),
            "should_shut_down": may_stop,
        }
