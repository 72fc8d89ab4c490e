"""AlterUserScramCredentials (key 51, version 0): set and remove SCRAM credentials (KIP-554). Each user has its own
result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.core.scram_changes import ScramDeletion, ScramUpsertion
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )


@dataclass(frozen=True)
class AlterUserScramCredentials(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    async def serve(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext
    ) -> AlterUserScramCredentialsResponse:
        return await self.gateway.serve(request, context, lambda: self._alter(request))

    def refuse(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext, error_code: int, message: str
    ) -> AlterUserScramCredentialsResponse:
        users = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
        return {
            "throttle_time": 0,
            "results": [{"user": user, "error_code": error_code, "error_message": message} for user in users],
        }

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        deletions = [ScramDeletion(str(one.name), int(one.mechanism)) for one in request.deletions]
        upsertions = [
            ScramUpsertion(
                str(one.name), int(one.mechanism), int(one.iterations), bytes(one.salt), bytes(one.salted_password)
            )
            for one in request.upsertions
        ]
        results = await self.gateway.controller.alter_scram_credentials(deletions, upsertions)
        return {
            "throttle_time": 0,
            "results": [
                {"user": user, "error_code": int(error), "error_message": message} for user, error, message in results
            ],
        }
