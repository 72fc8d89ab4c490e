"""DescribeUserScramCredentials (key 50, version 0): which users have SCRAM credentials, with their iterations.

KIP-554. The answer never holds a key or a salt.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core.credentials import credentials_of, users_of
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )


@dataclass(frozen=True)
class DescribeUserScramCredentials(Handler):
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> DescribeUserScramCredentialsResponse:
        image = self.view.current
        asked = Counter(str(user.name) for user in request.users or ())
        users = asked if asked else Counter(users_of(image))
        return {
            "throttle_time": 0,
            "error_code": int(ErrorCode.none),
            "error_message": "",
            "results": [_described(image, user, times) for user, times in users.items()],
        }

    def refuse(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext, error_code: int, message: str
    ) -> DescribeUserScramCredentialsResponse:
        results: list[DescribeUserScramCredentialsResult] = [
            {"user": str(user.name), "error_code": error_code, "error_message": message, "credential_infos": []}
            for user in request.users or ()
        ]
        return {"throttle_time": 0, "error_code": error_code, "error_message": message, "results": results}


def _described(image: ClusterImage, user: str, times: int) -> DescribeUserScramCredentialsResult:
    found = credentials_of(image, user)
    error, message = ErrorCode.none, ""
    if times > 1:
        error = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not found:
        error = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return {
        "user": user,
        "error_code": int(error),
        "error_message": message,
        "credential_infos": []
        if error is not ErrorCode.none
        else [{"mechanism": int(mechanism), "iterations": one.iterations} for mechanism, one in found.items()],
    }
