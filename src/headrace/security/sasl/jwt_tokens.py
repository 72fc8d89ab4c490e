"""JSON Web Tokens for OAUTHBEARER: the signature, then what the token claims.

Only asymmetric algorithms are taken, by an allow-list: never `none`, and never an HMAC, for which the published key
would be the secret. `check_unsecured` is for tests: it takes tokens without a signature, and only a configuration that
names it uses it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.kernel.dataclass import dataclass
from headrace.security.principal import claim_principal
from headrace.security.sasl.oauthbearer import BadToken, Bearer

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
# Limit of a token, because it is checked before its sender is known.
_LONGEST: Final = 32_768
_MOST_MEMBERS: Final = 256


@dataclass(frozen=True, slots=True)
class TokenRules:
    """`sasl.oauthbearer.…`: required claims of a token."""

    audiences: Sequence[str] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    role_claims: Sequence[str] = ()
    """Claims whose values may be members of roles."""


# The public key of a key id, for a token of this algorithm; None for an unknown id.
FindKey = Callable[[str | None, str], Any]


def check_signed(token: str, rules: TokenRules, find_key: FindKey) -> Bearer:
    """Raises BadToken."""
    import jwt  # loaded with the first token: a broker without OAUTHBEARER starts without it

    if len(token) > _LONGEST:
        raise BadToken(f"a token of {len(token)} characters")
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise BadToken(f"the token's algorithm is {str(algorithm)[:20]!r}")
        key_id = header.get("kid")
        key = find_key(key_id if isinstance(key_id, str) else None, algorithm)
        if key is None:
            raise BadToken(f"no key {str(key_id)[:100]!r} is published")
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=list(rules.audiences) or None,
            issuer=rules.issuer,
            leeway=rules.clock_skew_s,
            options={
                "require": ["exp", "iat", rules.subject_claim],
                "verify_aud": bool(rules.audiences),
                "verify_iss": rules.issuer is not None,
                "verify_sub": False,
            },
        )
    except (jwt.PyJWTError, TypeError) as error:  # TypeError: RS256 or PS256 with a key of another kind
        raise BadToken(f"{type(error).__name__}: {error}") from error
    return _bearer(claims, rules)


def check_unsecured(token: str, rules: TokenRules, now_ms: int) -> Bearer:
    """A token with `alg: none`, as Kafka's unsecured handler takes it. Raises BadToken."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2] or len(token) > _LONGEST:
        raise BadToken("not an unsecured token")
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
    except (binascii.Error, ValueError) as error:
        raise BadToken("not an unsecured token") from error
    if not isinstance(header, dict) or not isinstance(claims, dict) or header.get("alg") != "none":
        raise BadToken("not an unsecured token")
    bearer = _bearer(claims, rules)
    issued = claims.get("iat", 0)
    if not isinstance(issued, int | float) or issued * 1000 > now_ms + rules.clock_skew_s * 1000:
        raise BadToken("the token is from the future")
    if bearer.expires_at_ms < now_ms - rules.clock_skew_s * 1000:
        raise BadToken("the token has expired")
    return bearer


def _bearer(claims: Mapping[str, Any], rules: TokenRules) -> Bearer:
    name, expires = claims.get(rules.subject_claim), claims.get("exp")
    if not isinstance(name, str) or not name.strip():
        raise BadToken(f"the claim {rules.subject_claim!r} is no name")
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not 0 < expires < 2**40:
        raise BadToken("the claim 'exp' is no time")
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        raise BadToken(f"the claim {rules.scope_claim!r} is neither a text nor a list of texts")
    members = tuple(sorted({member for claim in rules.role_claims for member in _members(claims, claim, rules)}))
    if len(members) > _MOST_MEMBERS:
        # A token is never taken with a part of its claims: the missing ones might be excluded from a role.
        raise BadToken(f"{len(members)} values in {', '.join(rules.role_claims)}; the broker takes {_MOST_MEMBERS}")
    return Bearer(name, int(expires * 1000), members)


def _members(claims: Mapping[str, Any], claim: str, rules: TokenRules) -> list[str]:
    """The values of a claim as principals. A scope is a list of words, as in RFC 6749."""
    found = claims.get(claim, [])
    if isinstance(found, str):
        found = found.split() if claim == rules.scope_claim else [found]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadToken(f"the claim {claim!r} is neither a text nor a list of texts")
    return [claim_principal(claim, one) for one in found]
