"""DescribeClientQuotas (key 48, versions 0–1): quotas of users, client ids and addresses (KIP-546). v1 flexible."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.controller.core.quotas import matching
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_client_quotas import (
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        EntryData,
    )


@dataclass(frozen=True)
class DescribeClientQuotas(Handler):
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE_CONFIGS)

    def serve(self, request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
        filters = [(str(c.entity_type), int(c.match_type), c.match) for c in request.components]
        found = matching(self.view.current, filters, strict=bool(request.strict))
        entries: list[EntryData] = [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": float(value)} for key, value in values.items()],
            }
            for entity, values in found.items()
        ]
        return {"throttle_time": 0, "error_code": 0, "error_message": "", "entries": entries}
