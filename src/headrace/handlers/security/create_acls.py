"""CreateAcls (key 30, versions 1–3): new access rules. Without an authorizer: SECURITY_DISABLED for each, as
Kafka answers.
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
    from headrace.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@dataclass(frozen=True)
class CreateAcls(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def serve(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        row: AclCreationResult = {"error_code": int(ErrorCode.security_disabled), "error_message": NO_AUTHORIZER}
        return {"throttle_time": 0, "results": [row for _ in request.creations]}
