"""How the OAUTHBEARER mechanism of a listener checks tokens, from the configuration.

The keys come from a file, or from an HTTPS address that the configuration also names as allowed (CVE-2025-27817). The
broker follows no redirects. Class names are only names: `…OAuthBearerUnsecuredValidatorCallbackHandler` asks for tokens
without a signature, which no listener takes otherwise.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.config import BrokerConfig, ConfigError
from headrace.config.listener_security import ListenerSecurity
from headrace.config.listeners import is_loopback
from headrace.security.sasl.jwks import MAX_BYTES, BadKeys, PublishedKeys, RefreshRules
from headrace.security.sasl.jwt_tokens import TokenRules, check_signed, check_unsecured
from headrace.security.sasl.oauthbearer import NAME, CheckToken

_CLASS: Final = "sasl.server.callback.handler.class"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
_TIMEOUT_S: Final = 5.0


def token_check(config: BrokerConfig, security: ListenerSecurity) -> CheckToken:
    """Raises ConfigError."""

    def value(key: str) -> Any:
        return security.for_mechanism(NAME, key)

    rules = TokenRules(
        audiences=tuple(value("sasl.oauthbearer.expected.audience") or ()),
        issuer=value("sasl.oauthbearer.expected.issuer") or None,
        clock_skew_s=int(value("sasl.oauthbearer.clock.skew.seconds")),
        subject_claim=value("sasl.oauthbearer.sub.claim.name"),
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
    )
    named = security.of_mechanisms.get(NAME.lower(), {}).get(_CLASS) or ""
    if named.endswith(_UNSECURED):
        return lambda token: check_unsecured(token, rules, time.time_ns() // 1_000_000)
    url = value("sasl.oauthbearer.jwks.endpoint.url")
    if not url:
        raise ConfigError(
            f"listener.name.{security.name.lower()}.oauthbearer.{_URL}",
            None,
            f"must be set, because listener {security.name} offers {NAME}: a file or an address with the public keys",
        )
    refresh = RefreshRules(
        int(value("sasl.oauthbearer.jwks.endpoint.refresh.ms")),
        int(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")),
        int(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")),
    )
    keys = PublishedKeys(key_source(url, config[_ALLOWED] or ()), refresh, lambda: time.monotonic_ns() // 1_000_000)
    return lambda token: check_signed(token, rules, keys.find)


def key_source(url: str, allowed: Any) -> Callable[[], bytes]:
    """Reads the key set. Raises ConfigError for an address that is not allowed."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path))
        return lambda: _read_file(path)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ConfigError(_URL, url, "must be a file, or an address with https://")
    if url not in allowed:
        raise ConfigError(_URL, url, f"is not allowed: name it in {_ALLOWED} too")
    return lambda: _download(url)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        raise BadKeys("the address of the keys redirects to another one, which is not followed")


def _download(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        found: bytes = answer.read(MAX_BYTES + 1)
        return found
