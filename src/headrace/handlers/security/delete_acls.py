"""DeleteAcls (key 31, versions 1–3): the ACLs that a filter selects. v2 flexible, v3 resource type USER (KIP-373).

Each filter has its own result, with the ACLs that it deleted. Without an authorizer: SECURITY_DISABLED for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import AclResult
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.security.acl_fields import NO_AUTHORIZER, filter_of, refuse_unknown
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Acl, Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, read_request

if TYPE_CHECKING:
    from headrace.wire.messages.delete_acls import (
        DeleteAclsFilterResult,
        DeleteAclsMatchingAcl,
        DeleteAclsRequest,
        DeleteAclsResponse,
    )


@dataclass(frozen=True)
class DeleteAcls(Handler):
    gateway: ControllerGateway
    has_authorizer: bool

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> DeleteAclsRequest:
        request: DeleteAclsRequest = read_request(header, frame, body_at)
        for row in request.filters:
            refuse_unknown(row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type)
        return request

    async def serve(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        if not self.has_authorizer:
            return self.refuse(request, context, int(ErrorCode.security_disabled), NO_AUTHORIZER)
        return await self.gateway.serve(request, context, lambda: self._delete(request))

    def refuse(
        self, request: DeleteAclsRequest, context: RequestContext, error_code: int, message: str
    ) -> DeleteAclsResponse:
        row: DeleteAclsFilterResult = {"error_code": error_code, "error_message": message, "matching_acls": []}
        return {"throttle_time": 0, "filter_results": [row for _ in request.filters]}

    async def _delete(self, request: DeleteAclsRequest) -> DeleteAclsResponse:
        results = await self.gateway.controller.delete_acls([filter_of(row) for row in request.filters])
        return {"throttle_time": 0, "filter_results": [_filter_row(one) for one in results]}


def _filter_row(result: AclResult) -> DeleteAclsFilterResult:
    return {
        "error_code": int(result.error),
        "error_message": result.message,
        "matching_acls": [_acl_row(acl) for acl in result.acls],
    }


def _acl_row(acl: Acl) -> DeleteAclsMatchingAcl:
    return {
        "error_code": 0,
        "error_message": None,
        "resource_type": int(acl.pattern.resource_type),
        "resource_name": acl.pattern.name,
        "pattern_type": int(acl.pattern.pattern_type),
        "principal": acl.entry.principal,
        "host": acl.entry.host,
        "operation": int(acl.entry.operation),
        "permission_type": int(acl.entry.permission),
    }
