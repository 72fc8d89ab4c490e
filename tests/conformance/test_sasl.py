"""Unchanged clients log in with PLAIN and SCRAM: confluent-kafka, kafka-python, aiokafka, Kafka's tools and ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from headrace.client.blocking.client import BlockingClient
from headrace.client.connection import Connection
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.apis import ApiKey
from tests.reference.kafka import run_tool
from tests.support.clock import PATIENCE_S
from tests.support.names import unique
from tests.support.sasl import MECHANISMS, PASSWORD, SCRAM, SaslBroker, sasl_broker


@pytest.fixture(scope="module")
def served() -> Iterator[SaslBroker]:
    with sasl_broker() as started:
        yield started


def error_of(settings: dict[str, str]) -> tuple[int, str]:
    """Error that librdkafka reports for a failed login."""
    errors: list[KafkaError] = []
    client = Producer({**settings, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0)
    found = next(one for one in errors if one.code() == KafkaError._AUTHENTICATION)
    return found.code(), found.str()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_writes_and_reads(served: SaslBroker, mechanism: str) -> None:
    topic = unique("t")
    producer = Producer(served.settings(mechanism))
    producer.produce(topic, b"x" * 900_000)  # larger than the frame limit before the login
    assert producer.flush(PATIENCE_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**served.settings(mechanism), **group})
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    assert len(message.value()) == 900_000
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("anna", "wrong"), ("nobody", PASSWORD)])
def test_librdkafka_reports_a_failed_login(served: SaslBroker, mechanism: str, user: str, password: str) -> None:
    words = error_of(served.settings(mechanism, user, password))[1]
    expected = "Invalid username or password" if mechanism == "PLAIN" else "due to invalid credentials"
    assert expected in words


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_librdkafka_reports_a_mechanism_that_is_not_enabled(served: SaslBroker, mechanism: str) -> None:
    async def shake() -> Any:
        connection = await Connection.open("127.0.0.1", served.port)
        return await connection.request(ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism}, version=1)

    answer = asyncio.run(shake())
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert tuple(answer.mechanisms) == MECHANISMS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(served: SaslBroker, mechanism: str) -> None:
    topic = unique("t")
    settings = {
        "bootstrap_servers": served.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "anna",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**settings)
    producer.send(topic, b"hello").get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    assert next(consumer).value == b"hello"
    consumer.close()
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**{**settings, "sasl_plain_password": "wrong"}, bootstrap_timeout_ms=2000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads(served: SaslBroker, mechanism: str) -> None:
    async def write_and_read() -> bytes:
        topic = unique("t")
        settings = {
            "bootstrap_servers": served.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "anna",
            "sasl_plain_password": PASSWORD,
        }
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            record: bytes = (await consumer.getone()).value
            return record

    assert asyncio.run(asyncio.wait_for(write_and_read(), PATIENCE_S)) == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_clients_log_in(served: SaslBroker, mechanism: str) -> None:
    settings = served.settings(mechanism)
    security = ClientSecurity.from_settings(settings)
    assert BlockingClient(served.bootstrap, security=security, patience_s=5).cluster_id()

    async def ask(using: ClientSecurity) -> int:
        connection = await Connection.open("127.0.0.1", served.port, security=using)
        try:
            answer = await connection.request(ApiKey.METADATA, {"topics": []})
            return len(answer.brokers)
        finally:
            await connection.close()

    assert asyncio.run(ask(security)) == 1
    wrong = ClientSecurity.from_settings({**settings, "sasl.password": "wrong"})
    with pytest.raises(Refused) as refused:
        asyncio.run(ask(wrong))
    assert refused.value.code is ErrorCode.sasl_authentication_failed
    assert "wrong" not in refused.value.message


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_own_tools_log_in(served: SaslBroker, mechanism: str, tmp_path: Path) -> None:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    properties = tmp_path / "client.properties"

    def with_password(password: str) -> str:
        properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            f'username="anna" password="{password}";\n'
        )
        listing = ["--bootstrap-server", served.bootstrap, "--command-config", str(properties), "--list"]
        done = run_tool("org.apache.kafka.tools.TopicCommand", *listing)
        return done.stdout + done.stderr

    topic = unique("t")
    producer = Producer(served.settings(mechanism))
    producer.produce(topic, b"x")
    producer.flush(PATIENCE_S)
    assert topic in with_password(PASSWORD)
    assert "SaslAuthenticationException" in with_password("wrong")


def test_a_user_name_with_commas_and_quotes_can_log_in(served: SaslBroker) -> None:
    for name in ('o"neil, jr=1', "zoë", "a/b/../c%2F"):
        served.set_password(name, PASSWORD, "SCRAM-SHA-256")
        admin = AdminClient(served.settings("SCRAM-SHA-256", name))
        assert admin.list_topics(timeout=PATIENCE_S).brokers


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_changed_password_and_a_removed_user_take_effect_at_once(served: SaslBroker, mechanism: str) -> None:
    from confluent_kafka.admin import UserScramCredentialDeletion

    user = unique("user")
    served.set_password(user, "first", mechanism)
    served.set_password(user, "second", mechanism)
    assert AdminClient(served.settings(mechanism, user, "second")).list_topics(timeout=PATIENCE_S)
    error_of(served.settings(mechanism, user, "first"))
    described = served.admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
    assert [(info.mechanism.name, info.iterations) for info in described.scram_credential_infos] == [
        (mechanism.replace("-", "_"), 4096)
    ]
    deletion = UserScramCredentialDeletion(user, SCRAM[mechanism])
    served.admin.alter_user_scram_credentials([deletion])[user].result(PATIENCE_S)
    error_of(served.settings(mechanism, user, "second"))
