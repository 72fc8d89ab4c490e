"""DescribeAcls (key 29, versions 1–3): access rules. Without an authorizer: SECURITY_DISABLED, as Kafka answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


@dataclass(frozen=True)
class DescribeAcls(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(self, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
        raise Refused(ErrorCode.security_disabled, NO_AUTHORIZER)
