"""The authorization code flow of an OpenID provider, with PKCE, state and nonce.

The provider's token goes to the brokers by OAUTHBEARER, and the brokers verify it. So the console does not verify
signatures: a token that it got from the token endpoint over its own connection is only passed on. The nonce ties the
token to the request of this browser.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urlsplit

from headrace.console.protection import Rejected
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject
from headrace.security.sasl.token_source import expiry_s

_TIMEOUT_S: Final = 10.0
_PENDING_S: Final = 600.0
_MOST_PENDING: Final = 1000
_LARGEST_ANSWER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class OidcClient:
    """How the console is known to the provider."""

    issuer: str
    client_id: str
    client_secret: str = ""
    scope: str = "openid"

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> OidcClient:
        """Raises ValueError with the missing key."""
        known = {"issuer", "client.id", "client.secret", "scope"}
        for name in settings:
            if name not in known:
                raise ValueError(f"{name}: must be one of {', '.join(sorted(known))}")
        for name in ("issuer", "client.id"):
            if not settings.get(name):
                raise ValueError(f"{name} is missing")
        issuer = urlsplit(settings["issuer"])
        is_local = issuer.hostname in ("127.0.0.1", "localhost", "::1")
        if not issuer.hostname or (issuer.scheme != "https" and not (issuer.scheme == "http" and is_local)):
            raise ValueError(f"issuer {settings['issuer']!r}: must be an https:// address")
        return cls(
            settings["issuer"].rstrip("/"), settings["client.id"], settings.get("client.secret", ""),
            settings.get("scope", "openid"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pending:
    """A browser that was sent to the provider."""

    cluster: str
    next: str
    nonce: str
    verifier: str
    redirect_uri: str
    began_s: float


class Oidc:
    """Owned by the event loop; requests to the provider run in threads."""

    def __init__(self, client: OidcClient) -> None:
        self.client = client
        self._endpoints: JsonObject | None = None
        self._pending: dict[str, Pending] = {}

    async def begin(self, cluster: str, next_page: str, redirect_uri: str) -> tuple[str, str]:
        """(the provider's address for the browser, the state). Raises Rejected."""
        endpoints = await self._discovered()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        now_s = time.monotonic()
        self._pending = {
            name: one for name, one in self._pending.items() if now_s - one.began_s < _PENDING_S
        }  # fmt: skip
        while len(self._pending) >= _MOST_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[state] = Pending(cluster, next_page, nonce, verifier, redirect_uri, now_s)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.client.client_id, "redirect_uri": redirect_uri,
            "scope": self.client.scope, "state": state, "nonce": nonce, "code_challenge": challenge,
            "code_challenge_method": "S256",
        }  # fmt: skip
        address = str(endpoints["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", state

    async def finish(self, state: str, of_browser: str, code: str) -> tuple[Pending, str, float]:
        """(what began, the token for the brokers, its seconds). Raises Rejected."""
        pending = self._pending.pop(state, None)
        if pending is None or not secrets.compare_digest(state, of_browser):
            raise Rejected(403, "this answer of the OpenID provider does not belong to a login of this browser")
        if time.monotonic() - pending.began_s > _PENDING_S:
            raise Rejected(403, "the login took longer than ten minutes: begin again")
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": pending.redirect_uri,
            "client_id": self.client.client_id, "code_verifier": pending.verifier,
        }  # fmt: skip
        if self.client.client_secret:
            form["client_secret"] = self.client.client_secret
        endpoint = str((await self._discovered())["token_endpoint"])
        found = await asyncio.to_thread(_answer, endpoint, urlencode(form).encode())
        id_token = str(found.get("id_token", ""))
        if _claims(id_token).get("nonce") != pending.nonce:
            raise Rejected(403, "the token of the OpenID provider does not belong to this login: its nonce differs")
        # Some providers give access tokens that only they can read; brokers need a JSON Web Token.
        token = str(found.get("access_token", ""))
        token = token if _claims(token) else id_token
        ends_s = expiry_s(token)
        return pending, token, 3600.0 if ends_s is None else max(0.0, ends_s - time.time())

    async def _discovered(self) -> JsonObject:
        if self._endpoints is None:
            found = await asyncio.to_thread(_answer, f"{self.client.issuer}/.well-known/openid-configuration", None)
            for name in ("authorization_endpoint", "token_endpoint"):
                if not isinstance(found.get(name), str):
                    raise Rejected(502, f"the OpenID provider {self.client.issuer} does not name its {name}")
            self._endpoints = found
        return self._endpoints


def _answer(url: str, body: bytes | None) -> JsonObject:
    """Raises Rejected."""
    request = urllib.request.Request(url, body, {"accept": "application/json"})
    where = urlsplit(url).netloc
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        raise Rejected(502, f"the OpenID provider {where} answers {error.code} to the console") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Rejected(502, f"the OpenID provider {where} cannot be used: {reason}") from None
    if not isinstance(found, dict):
        raise Rejected(502, f"the OpenID provider {where} does not answer with a JSON object")
    return found


def _claims(token: str) -> JsonObject:
    """Unverified; empty if it is not a JSON Web Token."""
    try:
        part = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
