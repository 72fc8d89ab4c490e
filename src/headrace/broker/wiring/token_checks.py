"""How the OAUTHBEARER mechanism of a listener checks tokens, from the configuration.

The keys come from a file, or from an HTTPS address that the configuration also names as allowed (CVE-2025-27817). The
broker follows no redirects. Class names are only names: `…OAuthBearerUnsecuredValidatorCallbackHandler` asks for tokens
without a signature, which no listener takes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.client.identity_provider import ask_provider, is_protected
from headrace.config import BrokerConfig, ConfigError
from headrace.config.listener_security import ListenerSecurity
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.security.sasl.jwks import MAX_BYTES, PublishedKeys, RefreshRules
from headrace.security.sasl.jwt_tokens import TokenRules, check_signed, check_unsecured
from headrace.security.sasl.oauthbearer import NAME, CheckToken

_CLASS: Final = "sasl.server.callback.handler.class"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"


def token_check(config: BrokerConfig, security: ListenerSecurity, clock: Clock = SYSTEM_CLOCK) -> CheckToken:
    """Raises ConfigError."""

    def value(key: str) -> Any:
        return security.for_mechanism(NAME, key)

    rules = TokenRules(
        audiences=tuple(value("sasl.oauthbearer.expected.audience") or ()),
        issuer=value("sasl.oauthbearer.expected.issuer") or None,
        clock_skew_s=int(value("sasl.oauthbearer.clock.skew.seconds")),
        subject_claim=value("sasl.oauthbearer.sub.claim.name"),
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
        role_claims=tuple(value("sasl.oauthbearer.role.claim.names") or ()),
    )
    named = security.of_mechanisms.get(NAME.lower(), {}).get(_CLASS) or ""
    if named.endswith(_UNSECURED):
        return lambda token: check_unsecured(token, rules, clock.wall_ms())
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
    keys = PublishedKeys(key_source(url, config[ALLOWED_URLS] or ()), refresh, clock.monotonic_ms)
    return lambda token: check_signed(token, rules, keys.find)


def key_source(url: str, allowed: Any) -> Callable[[], bytes]:
    """Reads the key set. Raises ConfigError for an address that is not allowed."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path))
        return lambda: _read_file(path)
    check_allowed(_URL, url, allowed)
    return lambda: ask_provider(url, MAX_BYTES)


def check_allowed(key: str, url: str, allowed: Any) -> None:
    """Raises ConfigError unless the broker may send requests to the address."""
    if not is_protected(url):
        raise ConfigError(key, url, "must be a file, or an address with https://")
    if url not in allowed:
        raise ConfigError(key, url, f"is not allowed: name it in {ALLOWED_URLS} too")


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
