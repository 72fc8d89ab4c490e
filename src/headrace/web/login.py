"""The caller of a request, and the security of the caller's own broker connections.

The service never acts with rights of its own. It passes the credentials of each request on to the brokers, and the
brokers decide. `Brokers` holds how the service reaches the brokers (`--command-config`):

    security.protocol   request                       connection of the caller to the brokers
    PLAINTEXT, SSL      any                           anonymous
    SASL_*              Authorization: Basic          SASL with the user name and password (`sasl.mechanism`)
    SASL_*              Authorization: Bearer         SASL OAUTHBEARER with the token
    SASL_*              Authorization: Delegation     SASL SCRAM with the delegation token (base64 of id:HMAC)
    SASL_*              client certificate            SASL SCRAM with a delegation token of the certificate's principal
    SASL_*              none of these                 401

A header wins over a certificate. The brokers verify each login when the first connection of the caller is opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from headrace.client.security import ClientSecurity
from headrace.config.listener_security import StoreSettings
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.principal import ANONYMOUS
from headrace.security.sasl import oauthbearer
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.security.sasl.token_source import TOKEN_URL
from headrace.security.tls.names import NoRule
from headrace.web.errors import Problem, unauthenticated
from headrace.web.listener import CERTIFICATE

if TYPE_CHECKING:
    from headrace.web.delegation import DelegationTokens
    from headrace.web.tls import HttpTls

DELEGATION: Final = "Delegation"
_LARGEST_HEADER: Final = 16_384
_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")


@dataclass(frozen=True)
class Caller:
    """Who sends a request. The brokers have verified the name once a connection of the caller is open."""

    principal: str
    security: ClientSecurity | None


@dataclass(frozen=True)
class Brokers:
    """How the service reaches the brokers. `security` has no credentials; `own` is the service's own login, which it
    uses only to ask for delegation tokens."""

    bootstrap: str
    security: ClientSecurity | None = None
    own: ClientSecurity | None = None

    @classmethod
    def from_settings(cls, bootstrap: str, settings: Mapping[str, str]) -> Brokers:
        """From Kafka's client settings. Credentials are optional. Raises Refused for invalid settings."""
        if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
            return cls(bootstrap)
        mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")).upper()
        is_bearer_only = mechanism == oauthbearer.NAME
        has_own = bool({"sasl.username", "sasl.jaas.config", TOKEN_URL} & set(settings))
        filled = {**settings}
        if not has_own:
            filled |= {"sasl.username": "", "sasl.password": ""}
            if is_bearer_only:
                filled |= {"sasl.mechanism": next(iter(SCRAM_MECHANISMS))}
        own = ClientSecurity.from_settings(filled)
        anonymous = replace(
            own,
            mechanism=oauthbearer.NAME if is_bearer_only else own.mechanism,
            username="",
            password="",
            by_token=False,
            bearer=None,
            keystore=StoreSettings("ssl.keystore", "PEM", None, None),
            key_file=None,
        )
        return cls(bootstrap, anonymous, own if has_own and own.uses_sasl else None)

    @property
    def need_login(self) -> bool:
        return self.security is not None and self.security.uses_sasl

    @property
    def takes_passwords(self) -> bool:
        """Whether the brokers take user names and passwords, not only tokens."""
        return self.security is not None and self.need_login and self.security.mechanism != oauthbearer.NAME

    def with_password(self, name: str, password: str) -> Caller:
        assert self.security is not None
        return Caller(f"User:{name}", replace(self.security, username=name, password=password))

    def with_bearer(self, token: str) -> Caller:
        assert self.security is not None
        security = replace(self.security, mechanism=oauthbearer.NAME, username=_subject(token), password=token)
        return Caller(f"User:{security.username}", security)

    def with_token(self, token_id: str, password: str) -> Caller:
        """The brokers know who owns the token."""
        return self.with_delegation(f"DelegationToken:{token_id}", token_id, password)

    def with_delegation(self, principal: str, token_id: str, password: str) -> Caller:
        assert self.security is not None
        mechanism = self.security.mechanism
        if mechanism not in SCRAM_MECHANISMS:
            mechanism = next(iter(SCRAM_MECHANISMS))
        security = replace(self.security, mechanism=mechanism, username=token_id, password=password, by_token=True)
        return Caller(principal, security)


class Login:
    def __init__(self, brokers: Brokers, *, tls: HttpTls | None = None, tokens: DelegationTokens | None = None) -> None:
        self.brokers = brokers
        self._tls = tls
        self._tokens = tokens

    async def caller(self, request: Request) -> Caller:
        """Raises Problem 401."""
        if not self.brokers.need_login:
            return Caller(ANONYMOUS, self.brokers.security)
        header = request.headers.get("authorization")
        if header is not None:
            return self._by_header(header)
        certificate = request.scope.get("state", {}).get(CERTIFICATE)
        if certificate is not None:
            return await self._by_certificate(certificate)
        raise unauthenticated("log in with the user name and password (Basic) or the token (Bearer) of a Kafka user")

    def _by_header(self, header: str) -> Caller:
        scheme, _, rest = header.partition(" ")
        rest = rest.strip()
        if len(rest) > _LARGEST_HEADER:
            raise Problem(431, 431, f"Authorization has {len(rest)} characters; at most {_LARGEST_HEADER} are allowed")
        if scheme.lower() == "bearer" and rest:
            return self.brokers.with_bearer(rest)
        if scheme.lower() == DELEGATION.lower():
            return self.brokers.with_token(*_pair(DELEGATION, rest))
        if scheme.lower() != "basic":
            raise unauthenticated(f"Authorization {scheme}: must be Basic or Bearer")
        assert self.brokers.security is not None
        if self.brokers.security.mechanism == oauthbearer.NAME:
            raise unauthenticated("the brokers take tokens only: use Authorization: Bearer")
        return self.brokers.with_password(*_pair("Basic", rest))

    async def _by_certificate(self, certificate: bytes) -> Caller:
        assert self._tls is not None
        if self._tokens is None:
            raise unauthenticated(
                "this service cannot act for client certificates: its --command-config has no user of its own that may "
                "create delegation tokens. Log in with Basic or Bearer"
            )
        try:
            principal = self._tls.principal_of(certificate)
        except (NoRule, ValueError) as error:
            raise unauthenticated(f"the client certificate has no principal: {error}") from None
        if not principal.partition(":")[2]:
            # A broker takes an owner without a name as "no owner", and the token would be of the service's own user.
            raise unauthenticated(
                "the client certificate has no principal: its subject, or what a rule makes, is empty"
            )
        try:
            token_id, password = await self._tokens.token_of(principal)
        except Refused as refused:
            if refused.code in (
                ErrorCode.delegation_token_authorization_failed,
                ErrorCode.cluster_authorization_failed,
            ):
                raise Problem(403, 40301, f"the service may not create delegation tokens for {principal}") from None
            raise
        return self.brokers.with_delegation(principal, token_id, password)


def delegation_header(caller: Caller) -> str | None:
    """Authorization with the caller's delegation token, for another instance of the service. None without a token."""
    if caller.security is None or not caller.security.by_token:
        return None
    token = f"{caller.security.username}:{caller.security.password}"
    return f"{DELEGATION} {base64.b64encode(token.encode()).decode()}"


def _pair(scheme: str, encoded: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise unauthenticated(f"Authorization: {scheme} must be followed by base64 of name:password in UTF-8") from None
    name, colon, password = text.partition(":")
    if not colon or not name or "\0" in text:
        raise unauthenticated(f"Authorization: {scheme} must hold name:password")
    return name, password


def _subject(token: str) -> str:
    """The subject that the token claims. The brokers verify the token; a token without subject gets no connection."""
    if _TOKEN.fullmatch(token) is None:
        raise unauthenticated("the bearer token has characters that RFC 6750 does not allow")
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["sub"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise unauthenticated("the bearer token is not a JSON Web Token with a subject") from None
