"""Where a client gets its OAUTHBEARER token: a file, the token endpoint of an identity provider, or its own claims.

    sasl.oauthbearer.token.endpoint.url=file:///run/secrets/token          a file that another program renews
    sasl.oauthbearer.token.endpoint.url=https://idp.example/token          the client-credentials grant
    sasl.jaas.config=… required unsecuredLoginStringClaim_sub="ann";       a token without a signature, for tests

The names are those of Kafka and of librdkafka. The client id and the secret may also be options of `sasl.jaas.config`,
as in Kafka before 4.1. `client.bearer_tokens` gets the tokens.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from headrace.kernel.dataclass import dataclass

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
_UNSECURED_SUBJECT: Final = "unsecuredLoginStringClaim_sub"
_UNSECURED_LIFETIME_S: Final = 3600


class BadTokenSource(ValueError):
    """Settings that name no source, or not all of one. The message never contains a secret."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """`url` is empty for unsecured tokens of `unsecured_subject`."""

    url: str = ""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    unsecured_subject: str = ""

    def __repr__(self) -> str:  # a secret must not reach a log
        return f"TokenSource({self.title})"

    @property
    def is_file(self) -> bool:
        return urlsplit(self.url).scheme in ("", "file")

    @property
    def title(self) -> str:
        """The name of the client in messages. The token names the principal, and its text is a secret."""
        return self.unsecured_subject or self.client_id or f"the token of {self.url}"


def token_source(setting: Callable[[str], str | None], options: Mapping[str, str]) -> TokenSource:
    """`setting` reads a setting by Kafka's name; `options` are those of the login module. Raises BadTokenSource."""
    url = setting(TOKEN_URL) or ""
    subject = options.get(_UNSECURED_SUBJECT, "")
    if not url:
        if not subject:
            raise BadTokenSource(f"OAUTHBEARER needs {TOKEN_URL}: a file with the token, or an address that gives one")
        return TokenSource(unsecured_subject=subject)
    source = TokenSource(
        url,
        setting(CLIENT_ID) or options.get("clientId", ""),
        setting(CLIENT_SECRET) or options.get("clientSecret", ""),
        setting(SCOPE) or options.get("scope", ""),
    )
    if not source.is_file and not (source.client_id and source.client_secret):
        raise BadTokenSource(f"{TOKEN_URL}={url} needs {CLIENT_ID} and {CLIENT_SECRET}")
    return source


def unsecured_token(subject: str, now_s: int) -> str:
    """A token with `alg: none`, as Kafka's unsecured login module makes it."""
    claims = {"sub": subject, "iat": now_s, "exp": now_s + _UNSECURED_LIFETIME_S}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def expiry_s(token: str) -> float | None:
    """The claim `exp`, unchecked: it only says when to get the next token. None for a token without one."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        found = claims["exp"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _part(claims: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims, separators=(",", ":")).encode()).decode().rstrip("=")
