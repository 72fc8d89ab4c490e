"""CreateAcls (key 30, versions 1–3): new ACLs. v2 flexible, v3 resource type USER (KIP-373).

Each ACL has its own result. Without an authorizer: SECURITY_DISABLED for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.security.acl_fields import NO_AUTHORIZER, acl_of, refuse_unknown
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, read_request

if TYPE_CHECKING:
    from headrace.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@dataclass(frozen=True)
class CreateAcls(Handler):
    gateway: ControllerGateway
    has_authorizer: bool

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> CreateAclsRequest:
        request: CreateAclsRequest = read_request(header, frame, body_at)
        for row in request.creations:
            refuse_unknown(row.resource_type, row.resource_pattern_type, row.operation, row.permission_type)
        return request

    async def serve(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        if not self.has_authorizer:
            return self.refuse(request, context, int(ErrorCode.security_disabled), NO_AUTHORIZER)
        return await self.gateway.serve(request, context, lambda: self._create(request))

    def refuse(
        self, request: CreateAclsRequest, context: RequestContext, error_code: int, message: str
    ) -> CreateAclsResponse:
        row: AclCreationResult = {"error_code": error_code, "error_message": message}
        return {"throttle_time": 0, "results": [row for _ in request.creations]}

    async def _create(self, request: CreateAclsRequest) -> CreateAclsResponse:
        results = await self.gateway.controller.create_acls([acl_of(row) for row in request.creations])
        return {
            "throttle_time": 0,
            # An empty message for a created ACL, as in Kafka.
            "results": [{"error_code": int(one.error), "error_message": one.message or ""} for one in results],
        }
