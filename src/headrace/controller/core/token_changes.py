"""Delegation tokens: how requests make, renew and end them (KIP-48, Kafka's DelegationTokenControlManager)."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from headrace.cluster.core.changes import Change, ConfigSet
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.tokens import TOKEN, tokens_of
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.principal import is_user
from headrace.security.sasl.tokens import DelegationToken, token_hmac


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The `delegation.token.…` settings. Without a secret, tokens are off."""

    secret: str | None
    max_lifetime_ms: int
    expiry_time_ms: int


@dataclass(frozen=True, slots=True)
class NewToken:
    id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    max_lifetime_ms: int


def secret_of(rules: TokenRules) -> str:
    if not rules.secret:
        raise Refused(ErrorCode.delegation_token_auth_disabled, "delegation.token.secret.key is not set")
    return rules.secret


def created(
    image: ClusterImage, rules: TokenRules, asked: NewToken, now_ms: int
) -> tuple[DelegationToken, list[Change]]:
    """Raises Refused."""
    secret_of(rules)
    # A login with the token is one of a user, so `X:admin` must not stand for `User:admin`. Kafka takes any type.
    if not is_user(asked.owner):
        raise Refused(ErrorCode.invalid_principal_type, "owners of delegation tokens are users")
    if not all(is_user(one) for one in asked.renewers):
        raise Refused(ErrorCode.invalid_principal_type, "renewers of delegation tokens are users")
    lifetime_ms = rules.max_lifetime_ms
    if asked.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, asked.max_lifetime_ms)
    max_at_ms = now_ms + lifetime_ms
    token = DelegationToken(
        asked.id,
        asked.owner,
        asked.requester,
        tuple(asked.renewers),
        now_ms,
        min(max_at_ms, now_ms + rules.expiry_time_ms),
        max_at_ms,
    )
    return token, [ConfigSet(TOKEN, token.id, token.as_values())]


def without_expired(image: ClusterImage, now_ms: int) -> list[Change]:
    """The removal of the tokens that have expired."""
    return [ConfigSet(TOKEN, token.id, {}) for token in tokens_of(image) if token.is_expired(now_ms)]


def renewed(
    image: ClusterImage, rules: TokenRules, digest: bytes, principal: str, period_ms: int, now_ms: int
) -> tuple[int, list[Change]]:
    """The new expiry time. Raises Refused."""
    token = _found(image, rules, digest)
    if token.is_expired(now_ms):
        raise Refused(ErrorCode.delegation_token_expired, "the delegation token has expired")
    _check_owner(token, principal)
    return _ends_at(token, now_ms + (min(period_ms, rules.expiry_time_ms) if period_ms > 0 else rules.expiry_time_ms))


def expired(
    image: ClusterImage, rules: TokenRules, digest: bytes, principal: str, period_ms: int, now_ms: int
) -> tuple[int, list[Change]]:
    """The new expiry time; a negative period expires the token now. Raises Refused."""
    token = _found(image, rules, digest)
    _check_owner(token, principal)
    if period_ms < 0:
        return now_ms, [ConfigSet(TOKEN, token.id, {})]
    if token.is_expired(now_ms):
        raise Refused(ErrorCode.delegation_token_expired, "the delegation token has expired")
    return _ends_at(token, now_ms + period_ms)


def _found(image: ClusterImage, rules: TokenRules, digest: bytes) -> DelegationToken:
    secret = secret_of(rules)
    for token in tokens_of(image):
        if hmac.compare_digest(token_hmac(token.id, secret), digest):
            return token
    raise Refused(ErrorCode.delegation_token_not_found, "there is no such delegation token")


def _check_owner(token: DelegationToken, principal: str) -> None:
    if not token.belongs_to(principal):
        raise Refused(ErrorCode.delegation_token_owner_mismatch, "the delegation token belongs to another user")


def _ends_at(token: DelegationToken, at_ms: int) -> tuple[int, list[Change]]:
    end = min(token.max_at_ms, at_ms)
    values = {**token.as_values(), "expires": str(end)}
    return end, [ConfigSet(TOKEN, token.id, values)]
