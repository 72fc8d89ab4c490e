"""TLS and SASL settings in Java's spelling as those of librdkafka."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.security.sasl.token_source import expiry_s

if TYPE_CHECKING:
    from headrace.client.bearer_tokens import BearerTokens
    from headrace.client.security import ClientSecurity

# For a token that does not say when it expires.
_ASK_AGAIN_S: Final = 60
OF_SECURITY: Final = ("security.", "ssl.", "sasl.")
# Settings of the Java client that `security_settings` translates.
_JAVA_ONLY: Final = frozenset(
    {
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        *(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")),
        *(f"ssl.keystore.{name}" for name in ("type", "location", "password", "key", "certificate.chain")),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location"),
        *("ssl.key.pem", "sasl.username", "sasl.password", "ssl.protocol", "ssl.enabled.protocols"),
    }
)


def security_settings(java: Mapping[str, str]) -> dict[str, Any]:
    """Only the TLS and SASL settings. Java stores become files or PEM text; a JAAS line becomes user and password."""
    found: dict[str, Any] = {
        name: value for name, value in java.items() if name.startswith(OF_SECURITY) and name not in _JAVA_ONLY
    }
    if java.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return found
    from headrace.client.security import ClientSecurity

    security = ClientSecurity.from_settings(java)
    if security.bearer is not None:
        found = {name: value for name, value in found.items() if not name.startswith("sasl.oauthbearer.")}
        found["oauth_cb"] = partial(_bearer_token, security.bearer)
    elif security.uses_sasl:
        found |= {"sasl.username": security.username, "sasl.password": security.password}
    if security.encrypted:
        found |= _stores(security)
        if not security.check_hostname:
            found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _bearer_token(bearer: BearerTokens, _: str) -> tuple[str, float]:
    """librdkafka asks for a token, and again before it expires."""
    token = bearer.current()
    return token, expiry_s(token) or time.time() + _ASK_AGAIN_S


def _stores(security: ClientSecurity) -> dict[str, str]:
    """Stores that librdkafka can read stay files. Others become PEM text."""
    found: dict[str, str] = {}
    trust, own = security.truststore, security.keystore
    if trust.location is not None and trust.type == "PEM":
        found["ssl.ca.location"] = trust.location
    elif trust.is_given:
        found["ssl.ca.pem"] = security.trusted_pem()
    if own.location is not None and own.type == "PEM":
        found |= {"ssl.certificate.location": own.location, "ssl.key.location": security.key_file or own.location}
        if own.key_password is not None:
            found["ssl.key.password"] = own.key_password
    elif own.is_given:
        found["ssl.key.pem"], found["ssl.certificate.pem"] = security.key_and_chain_pem()
    return found
