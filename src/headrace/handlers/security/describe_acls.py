"""DescribeAcls (key 29, versions 1–3): the ACLs that a filter selects. v2 flexible, v3 resource type USER (KIP-373).

Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.controller.core.acls import selected
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.security.acl_fields import NO_AUTHORIZER, filter_of, refuse_unknown
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Entry, Operation, ResourcePattern
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, read_request

if TYPE_CHECKING:
    from headrace.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse


@dataclass(frozen=True)
class DescribeAcls(Handler):
    view: ClusterView
    has_authorizer: bool

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> DescribeAclsRequest:
        request: DescribeAclsRequest = read_request(header, frame, body_at)
        refuse_unknown(
            request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
        )
        return request

    def serve(self, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
        if not self.has_authorizer:
            raise Refused(ErrorCode.security_disabled, NO_AUTHORIZER)
        found: dict[ResourcePattern, list[Entry]] = {}
        for acl in selected(self.view.current.acls, filter_of(request)):
            found.setdefault(acl.pattern, []).append(acl.entry)
        resources = [_resource(pattern, entries) for pattern, entries in found.items()]
        return {"throttle_time": 0, "error_code": 0, "error_message": "", "resources": resources}


def _resource(pattern: ResourcePattern, entries: list[Entry]) -> DescribeAclsResource:
    return {
        "resource_type": int(pattern.resource_type),
        "resource_name": pattern.name,
        "pattern_type": int(pattern.pattern_type),
        "acls": [
            {
                "principal": entry.principal,
                "host": entry.host,
                "operation": int(entry.operation),
                "permission_type": int(entry.permission),
            }
            for entry in entries
        ],
    }
