"""Settings of brokers whose only listener demands TLS and SCRAM, also between brokers."""

from __future__ import annotations

from typing import Final

MECHANISM: Final = "SCRAM-SHA-256"
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SASL_SSL: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    f"listener.name.plaintext.{MECHANISM.lower()}.sasl.jaas.config": f'{MODULE} username="broker" password="sesame";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:load",
}
