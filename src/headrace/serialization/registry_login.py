"""A registry client that logs in as its user logs in to the brokers.

The registry has the users of the brokers. A SCRAM or PLAIN user logs in by Basic, an OAUTHBEARER user by its token.
On HTTPS the client trusts the authorities of the system and the ones that the user trusts for brokers. A login that
brokers get only over TLS is not sent over plain HTTP to another machine.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.client.security import ClientSecurity
from headrace.config.listeners import is_loopback
from headrace.security.sasl import oauthbearer
from headrace.serialization.registry_client import RegistryClient


def registry_client(url: str, security: ClientSecurity | None, *, timeout_s: float = 30.0) -> RegistryClient:
    """`security` is None for brokers on plain text. Raises ValueError for a URL that is invalid or would get the login
    unencrypted."""
    check_registry_url(url, security)
    if security is None:
        return RegistryClient(url, timeout_s=timeout_s)
    trusted = security.trusted_pem() if security.encrypted and security.truststore.is_given else None
    if not security.uses_sasl or security.by_token:
        return RegistryClient(url, trusted=trusted, timeout_s=timeout_s)
    if security.bearer is not None:
        return RegistryClient(url, token=security.bearer.current(), trusted=trusted, timeout_s=timeout_s)
    if security.mechanism == oauthbearer.NAME:
        return RegistryClient(url, token=security.password, trusted=trusted, timeout_s=timeout_s)
    return RegistryClient(url, user=security.username, password=security.password, trusted=trusted, timeout_s=timeout_s)


def check_registry_url(url: str, security: ClientSecurity | None) -> None:
    """Raises ValueError."""
    parts = urlsplit(RegistryClient(url).url if "://" in url else f"http://{url}")
    has_login = security is not None and security.encrypted and security.uses_sasl and not security.by_token
    if has_login and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError(
            f"registry {url!r}: the login would be sent unencrypted, and the brokers take it only over TLS: use https://"
        )
