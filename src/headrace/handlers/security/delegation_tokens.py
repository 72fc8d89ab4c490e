"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (keys 38–41).

Versions: 38 1–3 (v3: a token for another owner), 39 and 40 1–2, 41 1–3. A client must be known by name, and a session
that came from a token may not use these requests (`dispatch.login` refuses it), as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core.tokens import tokens_of
from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.controller.core.token_changes import NewToken, secret_of
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import new_topic_id, uuid_to_text
from headrace.security.acl.model import Operation, ResourceType
from headrace.security.principal import ANONYMOUS
from headrace.security.sasl.tokens import DelegationToken, token_hmac
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )
    from headrace.wire.messages.describe_delegation_token import (
        DescribedDelegationToken,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )
    from headrace.wire.messages.expire_delegation_token import (
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
    )
    from headrace.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def _check_known(context: RequestContext) -> None:
    if context.principal == ANONYMOUS:
        raise Refused(
            ErrorCode.delegation_token_request_not_allowed, "log in with SASL or a certificate to use delegation tokens"
        )


@dataclass(frozen=True)
class CreateDelegationToken(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(user=Operation.CREATE_TOKENS)

    async def serve(
        self, request: CreateDelegationTokenRequest, context: RequestContext
    ) -> CreateDelegationTokenResponse:
        _check_known(context)
        owner = _owner(request, context)
        if owner != context.principal:
            context.access.require(Operation.CREATE_TOKENS, ResourceType.USER, owner)
        return await self.gateway.serve(request, context, lambda: self._create(request, context, owner))

    async def _create(
        self, request: CreateDelegationTokenRequest, context: RequestContext, owner: str
    ) -> CreateDelegationTokenResponse:
        renewers = [f"{one.principal_type}:{one.principal_name}" for one in request.renewers]
        lifetime_ms = millis(request.max_lifetime)
        asked = NewToken(uuid_to_text(new_topic_id()), owner, context.principal, renewers, lifetime_ms)
        token, secret = await self.gateway.controller.create_token(asked, context.received_at_ms)
        owner_type, _, owner_name = token.owner.partition(":")
        requester_type, _, requester_name = token.requester.partition(":")
        return {
            "error_code": 0,
            "principal_type": owner_type,
            "principal_name": owner_name,
            "token_requester_principal_type": requester_type,
            "token_requester_principal_name": requester_name,
            "issue_timestamp": token.issued_at_ms,
            "expiry_timestamp": token.expires_at_ms,
            "max_timestamp": token.max_at_ms,
            "token_id": token.id,
            "hmac": token_hmac(token.id, secret),
            "throttle_time": 0,
        }


def _owner(request: CreateDelegationTokenRequest, context: RequestContext) -> str:
    """The requester if the request names no owner, by null or by empty texts. Raises INVALID_REQUEST for half a name:
    Kafka makes a token of the requester if only the name is missing, and fails if only the type is null."""
    kind, name = request.owner_principal_type or "", request.owner_principal_name or ""
    if not kind and not name:
        return context.principal
    if not kind or not name:
        missing = "type" if name else "name"
        raise Refused(ErrorCode.invalid_request, f"the owner of a delegation token has no {missing}")
    return f"{kind}:{name}"


@dataclass(frozen=True)
class RenewDelegationToken(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.RENEW_DELEGATION_TOKEN
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = NOTHING  # the owner and the renewers of the token

    async def serve(
        self, request: RenewDelegationTokenRequest, context: RequestContext
    ) -> RenewDelegationTokenResponse:
        _check_known(context)
        return await self.gateway.serve(request, context, lambda: self._renew(request, context))

    async def _renew(
        self, request: RenewDelegationTokenRequest, context: RequestContext
    ) -> RenewDelegationTokenResponse:
        digest, period_ms = bytes(request.hmac), millis(request.renew_period)
        end = await self.gateway.controller.renew_token(digest, context.principal, period_ms, context.received_at_ms)
        return {"error_code": 0, "expiry_timestamp": end, "throttle_time": 0}


@dataclass(frozen=True)
class ExpireDelegationToken(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.EXPIRE_DELEGATION_TOKEN
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = NOTHING  # the owner and the renewers of the token

    async def serve(
        self, request: ExpireDelegationTokenRequest, context: RequestContext
    ) -> ExpireDelegationTokenResponse:
        _check_known(context)
        return await self.gateway.serve(request, context, lambda: self._expire(request, context))

    async def _expire(
        self, request: ExpireDelegationTokenRequest, context: RequestContext
    ) -> ExpireDelegationTokenResponse:
        digest, period_ms = bytes(request.hmac), millis(request.expiry_time_period)
        end = await self.gateway.controller.expire_token(digest, context.principal, period_ms, context.received_at_ms)
        return {"error_code": 0, "expiry_timestamp": end, "throttle_time": 0}


@dataclass(frozen=True)
class DescribeDelegationToken(Handler):
    view: ClusterView
    controller: Controller

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN
    versions: ClassVar[range] = range(1, 4)
    needs: ClassVar[Needs] = Needs(delegation_token=Operation.DESCRIBE, user=Operation.DESCRIBE_TOKENS)

    def serve(
        self, request: DescribeDelegationTokenRequest, context: RequestContext
    ) -> DescribeDelegationTokenResponse:
        _check_known(context)
        secret = secret_of(self.controller.token_rules)
        owners = None
        if request.owners is not None:
            owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
        shown = [
            _described(token, secret)
            for token in tokens_of(self.view.current)
            if not token.is_expired(context.received_at_ms)
            and (owners is None or any(token.belongs_to(owner) for owner in owners))
            and _may_see(token, context)
        ]
        return {"error_code": 0, "tokens": shown, "throttle_time": 0}


def _may_see(token: DelegationToken, context: RequestContext) -> bool:
    if token.belongs_to(context.principal):
        return True
    by_id = context.access.filter(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, [token.id])
    return bool(by_id or context.access.filter(Operation.DESCRIBE_TOKENS, ResourceType.USER, [token.owner]))


def _described(token: DelegationToken, secret: str) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [one.partition(":") for one in token.renewers]
    return {
        "principal_type": owner_type,
        "principal_name": owner_name,
        "token_requester_principal_type": requester_type,
        "token_requester_principal_name": requester_name,
        "issue_timestamp": token.issued_at_ms,
        "expiry_timestamp": token.expires_at_ms,
        "max_timestamp": token.max_at_ms,
        "token_id": token.id,
        "hmac": token_hmac(token.id, secret),
        "renewers": [{"principal_type": kind, "principal_name": name} for kind, _, name in renewers],
    }
