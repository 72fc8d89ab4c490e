"""ListConfigResources (key 74, versions 0–1): the names of configured resources.

v0  client metrics subscriptions only · v1 any types (KIP-1142)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.handlers.configs.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, NAMES, TOPIC
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.list_config_resources import (
        ConfigResource,
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
    )


@dataclass(frozen=True)
class ListConfigResources(Handler):
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE_CONFIGS)

    def serve(self, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
        asked = (
            [CLIENT_METRICS] if context.version == 0 else [int(kind) for kind in request.resource_types] or list(NAMES)
        )
        for kind in asked:
            if kind not in NAMES:
                raise Refused(ErrorCode.unsupported_version, f"resource type {kind} is unknown")
        image = self.view.current
        rows: list[ConfigResource] = [
            {"resource_name": name, "resource_type": kind}
            for kind in dict.fromkeys(asked)
            for name in _names(image, kind)
        ]
        return {"throttle_time": 0, "error_code": 0, "config_resources": rows}


def _names(image: ClusterImage, kind: int) -> list[str]:
    if kind == TOPIC:
        return sorted(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource_type, name in image.configs if resource_type == NAMES[kind])
