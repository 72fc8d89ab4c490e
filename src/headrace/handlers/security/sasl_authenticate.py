"""SaslAuthenticate (key 36, versions 0–2): refused. `dispatch.login` serves it on a connection that has to log in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@dataclass(frozen=True)
class SaslAuthenticate(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
        return {
            "error_code": int(ErrorCode.illegal_sasl_state),
            "error_message": "SaslAuthenticate request received after successful authentication",
            "auth_bytes": b"",
            "session_lifetime": 0,
        }
