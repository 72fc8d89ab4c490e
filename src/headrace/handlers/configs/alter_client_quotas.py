"""AlterClientQuotas (key 49, versions 0–1): set and remove quotas (KIP-546). v1 flexible. Each entity has its
own result.
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
    from headrace.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        RequestEntryData,
        ResponseEntryData,
    )


@dataclass(frozen=True)
class AlterClientQuotas(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER_CONFIGS)

    async def serve(self, request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
        return await self.gateway.serve(request, context, lambda: self._alter(request))

    def refuse(
        self, request: AlterClientQuotasRequest, context: RequestContext, error_code: int, message: str
    ) -> AlterClientQuotasResponse:
        return {"throttle_time": 0, "entries": [_row(entry, error_code, message) for entry in request.entries]}

    async def _alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        asked = [
            (
                [(str(part.entity_type), part.entity_name) for part in entry.entity],
                [(str(op.key), float(op.value), bool(op.remove)) for op in entry.ops],
            )
            for entry in request.entries
        ]
        results = await self.gateway.controller.alter_quotas(asked, validate_only=request.validate_only)
        rows: list[ResponseEntryData] = []
        for entry, (error, message) in zip(request.entries, results, strict=True):
            row = _row(entry, int(error), message)
            if row not in rows:  # A duplicate entity is refused once.
                rows.append(row)
        return {"throttle_time": 0, "entries": rows}


def _row(entry: RequestEntryData, error_code: int, message: str | None) -> ResponseEntryData:
    return {
        "error_code": error_code,
        "error_message": message,
        "entity": [
            {"entity_type": kind, "entity_name": name}
            for kind, name in {part.entity_type: part.entity_name for part in entry.entity}.items()
        ],
    }
