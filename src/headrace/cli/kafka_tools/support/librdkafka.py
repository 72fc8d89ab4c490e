"""Converts client settings from Java's spelling to librdkafka's.

Users pass producer and consumer properties with Kafka's names. librdkafka shares most of them. This module translates
the few that differ, and removes settings that librdkafka does not have.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.security.sasl.token_source import expiry_s

if TYPE_CHECKING:
    from headrace.client.bearer_tokens import BearerTokens
    from headrace.client.security import ClientSecurity

_RENAMED: Final = {
    "data.max.age.ms": "metadata.max.age.ms",
    "max.in.flight.request.per.connection": "max.in.flight.requests.per.connection",
    "request.timeout.ms": "request.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
# Settings that name Java classes or tune threads and buffers of the JVM client.
_WITHOUT_MEANING: Final = frozenset(
    {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "buffer.memory", "max.block.ms",
        "interceptor.classes", "metric.reporters", "max.poll.records", "partitioner.class", "exclude.internal.topics",
    }
)  # fmt: skip
# For a token that does not say when it expires.
_ASK_AGAIN_S: Final = 60
_OF_SECURITY: Final = ("security.", "ssl.", "sasl.")
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
# Settings that only one kind of librdkafka client accepts.
_ONLY_PRODUCER: Final = frozenset(
    {"acks", "linger.ms", "batch.size", "compression.type", "retries", "enable.idempotence"}
)


def settings(java: Mapping[str, str], *, producer: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in java.items():
        if name in _WITHOUT_MEANING or (not producer and name in _ONLY_PRODUCER):
            continue
        if not name.startswith(_OF_SECURITY):
            found[_RENAMED.get(name, name)] = value
    found |= security_settings(java)
    if "buffer.memory" in java and producer:
        found["queue.buffering.max.kbytes"] = str(max(1, int(java["buffer.memory"]) // 1024))
    return found


def security_settings(java: Mapping[str, str]) -> dict[str, Any]:
    """Only the TLS and SASL settings. Java stores become files or PEM text; a JAAS line becomes user and password."""
    found: dict[str, Any] = {
        name: value for name, value in java.items() if name.startswith(_OF_SECURITY) and name not in _JAVA_ONLY
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


def quiet_log() -> dict[str, object]:
    """Silences librdkafka's log lines on stderr. The tool gets errors through callbacks."""
    import logging

    logger = logging.getLogger("librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return {"logger": logger, "log_level": 0}


def explain(error: object) -> str:
    """librdkafka's error as one sentence."""
    text = getattr(error, "str", lambda: str(error))()
    return str(text)


def warn_deprecated(old: str, new: str, *, prefix: str = "Option") -> None:
    print(
        f"{prefix} --{old} is deprecated and will be removed in a future version. Use --{new} instead.", file=sys.stderr
    )
