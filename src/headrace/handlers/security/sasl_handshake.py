"""SaslHandshake (key 17, versions 0–1): refused on a listener without SASL and after a login.

Kafka answers the same: ILLEGAL_SASL_STATE and no mechanisms. `dispatch.login` serves it on a connection that has to log
in, or that may authenticate again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@dataclass(frozen=True)
class SaslHandshake(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
        return {"error_code": int(ErrorCode.illegal_sasl_state), "mechanisms": []}
