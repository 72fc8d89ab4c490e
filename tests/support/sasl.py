"""A broker with a SASL listener, a plaintext listener and users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.testing import RunningBroker, broker
from tests.support.clock import PATIENCE_S

PASSWORD: Final = "sesame, open=1!"
SCRAM: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
MECHANISMS: Final = ("PLAIN", *SCRAM)
LISTENERS: Final = {
    "listeners": "LOCAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "LOCAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "LOCAL",
}
PLAIN_USERS: Final = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="{PASSWORD}" user_bert="other";'
)


class SaslBroker:
    """`bootstrap` is the SASL listener, `local` the plaintext one."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        ports = {one.name: one.port for one in running.broker.listeners.advertised}
        self.port = ports["CLIENTS"]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.local = f"127.0.0.1:{ports['LOCAL']}"
        self.admin = AdminClient({"bootstrap.servers": self.local})

    def set_password(self, user: str, password: str, mechanism: str, iterations: int = 4096) -> None:
        info = ScramCredentialInfo(SCRAM[mechanism], iterations)
        upsertion = UserScramCredentialUpsertion(user, info, password.encode())
        for future in self.admin.alter_user_scram_credentials([upsertion]).values():
            future.result(PATIENCE_S)

    def settings(self, mechanism: str, user: str = "anna", password: str = PASSWORD) -> dict[str, str]:
        """Settings for confluent-kafka and kcat."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@contextmanager
def sasl_broker(settings: Mapping[str, str] | None = None) -> Iterator[SaslBroker]:
    """The user `anna` has `PASSWORD` with every mechanism."""
    sasl = {
        **LISTENERS,
        "listener.name.clients.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.clients.plain.sasl.jaas.config": PLAIN_USERS,
    }
    with broker({**sasl, **(settings or {})}) as running:
        started = SaslBroker(running)
        for mechanism in SCRAM:
            started.set_password("anna", PASSWORD, mechanism)
        yield started
