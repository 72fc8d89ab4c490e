"""Random, truncated and mutated bytes before a login: the broker closes the connection and nothing else happens."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headrace.security.sasl.plain import client_token
from headrace.security.sasl.scram import ScramClient
from headrace.security.sasl.scram_credentials import ScramMechanism
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.effort import rounds
from tests.support.sasl import MECHANISMS, SaslBroker, sasl_broker

pytestmark = pytest.mark.fuzz

ROUNDS = rounds(short=300, long=10_000)
MAX_LOGIN_BYTES = 524_288


@pytest.fixture(scope="module")
def served() -> Iterator[SaslBroker]:
    with sasl_broker({"connection.failed.authentication.delay.ms": "0"}) as started:
        yield started


def request(api_key: int, version: int, body: dict[str, object]) -> bytes:
    return bytes(codec.encode_request(api_key, version, 7, "fuzz", body))


def frames(chance: random.Random) -> list[bytes]:
    """A login with a wrong password, mostly in the right order, and requests that need a login."""
    mechanism = chance.choice(MECHANISMS)
    first = ScramClient(ScramMechanism.SHA_256, "anna", "wrong").first()
    token = client_token("anna", "wrong") if mechanism == "PLAIN" else first
    topic = {"name": "created-by-fuzz", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    valid = [
        request(ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}),
        request(ApiKey.SASL_HANDSHAKE, chance.choice((0, 1)), {"mechanism": mechanism}),
        request(ApiKey.SASL_AUTHENTICATE, chance.choice((0, 1, 2)), {"auth_bytes": token}),
        struct.pack(">i", len(token)) + token,
        request(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 1000, "validate_only": False}),
    ]
    return [frame for frame in valid if chance.random() < 0.8]


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((0, 1, 3, 20))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    if chance.random() < 0.2:
        del changed[chance.randrange(len(changed) + 1) :]
    if chance.random() < 0.1:
        changed += chance.randbytes(chance.choice((1, 100, 70_000)))
    return bytes(changed)


def test_no_bytes_without_a_password_have_an_effect(served: SaslBroker) -> None:
    chance = random.Random(ROUNDS)
    listeners = served.running.broker.connections
    logins = served.running.broker.parts.logins.counts
    before = logins.successes
    for _ in range(ROUNDS):
        sent = b"".join(frames(chance))
        data = chance.randbytes(chance.randrange(200)) if chance.random() < 0.1 else mutated(sent, chance)
        with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as client, suppress(OSError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
    assert logins.successes == before
    assert logins.failures > ROUNDS // 2, "most of the bytes reach the login"
    assert "created-by-fuzz" not in served.admin.list_topics(timeout=PATIENCE_S).topics
    wait_for(lambda: not [one for one in listeners.connections if not one.authenticated], "no login is left open")
    served.set_password("carl", "sesame", "SCRAM-SHA-256")
    from confluent_kafka.admin import AdminClient

    assert AdminClient(served.settings("SCRAM-SHA-256", "carl", "sesame")).list_topics(timeout=PATIENCE_S).brokers


@pytest.mark.parametrize("length", [MAX_LOGIN_BYTES + 1, 100 * 1024 * 1024, 2**31 - 1, -1, -(2**31)])
def test_cve_2022_34917_a_frame_length_above_the_limit_closes_the_connection_at_once(
    served: SaslBroker, length: int
) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as client:
        client.sendall(struct.pack(">i", length))
        assert client.recv(1) == b""


@pytest.mark.parametrize(
    "body",
    [
        {"name": "sasl.jaas.config", "value": "com.sun.security.auth.module.JndiLoginModule required;"},
        {
            "name": "listener.name.clients.plain.sasl.jaas.config",
            "value": "com.sun.security.auth.module.JndiLoginModule required;",
        },
        {"name": "listener.name.clients.oauthbearer.sasl.jaas.config", "value": "LdapLoginModule required url=x;"},
        {"name": "sasl.oauthbearer.jwks.endpoint.url", "value": "file:///etc/passwd"},
    ],
)
def test_cve_2023_25194_2025_27818_2025_27819_a_client_cannot_choose_login_modules(
    served: SaslBroker, body: dict[str, str]
) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(body["name"], body["value"], incremental_operation=AlterConfigOpType.SET)
    broker_id = str(served.running.broker.config.broker_id)
    resource = ConfigResource(ResourceType.BROKER, broker_id, incremental_configs=[entry])
    future = next(iter(served.admin.incremental_alter_configs([resource]).values()))
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE_S)
    assert refused.value.args[0].name() in ("INVALID_REQUEST", "INVALID_CONFIG")
