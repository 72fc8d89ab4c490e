"""DeleteAcls (key 31, versions 1–3): access rules by filter. Without an authorizer: SECURITY_DISABLED, as Kafka
answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.security.describe_acls import NO_AUTHORIZER
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


@dataclass(frozen=True)
class DeleteAcls(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def serve(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        code = int(ErrorCode.security_disabled)
        row: DeleteAclsFilterResult = {"error_code": code, "error_message": NO_AUTHORIZER, "matching_acls": []}
        return {"throttle_time": 0, "filter_results": [row for _ in request.filters]}
