"""Unchanged clients through TLS and SCRAM-SHA-512 on one broker with ACLs: each writes and reads."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.conformance.test_franz_go import run_franz_go
from tests.conformance.test_kafkajs import run_kafkajs
from tests.reference.tools import shared_tools
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S
from tests.support.effort import is_long
from tests.support.maven import jars
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker

USER, MECHANISM = "anna", "SCRAM-SHA-512"
COUNT = 50
VALUES = [str(number).encode() for number in range(COUNT)]


@dataclass(frozen=True)
class Secured:
    served: SaslBroker
    ca: Path

    @property
    def bootstrap(self) -> str:
        return self.served.bootstrap

    def librdkafka(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.ca),
        }

    def environment(self) -> dict[str, str]:
        return {"TEST_CA": str(self.ca), "TEST_USER": USER, "TEST_PASSWORD": PASSWORD}

    def java(self) -> str:
        """The properties file of a Java client."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return (
            f"security.protocol=SASL_SSL\nsasl.mechanism={MECHANISM}\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.ca}\n"
            f'sasl.jaas.config={module} username="{USER}" password="{PASSWORD}";\n'
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority.make(directory / "certificates")
    settings = {
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,CLIENTS:SASL_SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER};User:ANONYMOUS",
        **authority.issue("broker").properties(),
    }
    with sasl_broker(settings) as served:
        yield Secured(served, authority.certificate)


def test_confluent_kafka(secured: Secured) -> None:
    producer = Producer(secured.librdkafka())
    for value in VALUES:
        producer.produce("confluent", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(secured.librdkafka() | {"group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found = [message.value() for _ in VALUES if (message := consumer.poll(PATIENCE_S)) is not None]
    consumer.close()
    assert found == VALUES
    connections = secured.served.running.broker.connections.connections
    assert {one.principal for one in connections if one.listener == "CLIENTS"} == {f"User:{USER}"}


def test_kafka_python(secured: Secured) -> None:
    settings = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(secured.ca),
    }
    producer = KafkaProducer(**settings)
    for sent in [producer.send("python", value) for value in VALUES]:
        sent.get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        "python", **settings, group_id="python", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    found = [record.value for record, _ in zip(consumer, VALUES, strict=False)]
    consumer.close()
    assert found == VALUES


def test_aiokafka(secured: Secured) -> None:
    settings = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_context": ssl.create_default_context(cafile=str(secured.ca)),
    }

    async def run() -> list[bytes]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait("aio", value)
        consumer = AIOKafkaConsumer("aio", **settings, group_id="aio", auto_offset_reset="earliest")
        async with consumer, asyncio.timeout(PATIENCE_S):
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(run()) == VALUES


@pytest.mark.needs("kcat")
def test_kcat(secured: Secured) -> None:
    options = [word for name, text in secured.librdkafka().items() for word in ("-X", f"{name}={text}")]
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    subprocess.run(["kcat", *options, "-P", "-t", "kcat"], input=lines, text=True, check=True, timeout=30)
    read = ["kcat", *options, "-C", "-t", "kcat", "-e", "-q"]
    assert subprocess.run(read, capture_output=True, text=True, check=True, timeout=30).stdout == lines


@pytest.mark.needs("node", "npm")
def test_kafkajs(secured: Secured) -> None:
    checks = run_kafkajs(secured.bootstrap, **secured.environment())
    assert checks["records"]["count"] == checks["records"]["values"] == 100
    assert checks["transactions"]["values"] == ["kept-1", "kept-2"]


@pytest.mark.needs("go")
def test_franz_go(secured: Secured) -> None:
    checks = run_franz_go(secured.bootstrap, **secured.environment())
    assert checks["records"]["count"] == checks["records"]["values"] == 200
    assert checks["transactions"]["values"] == ["kept-1", "kept-2"]


@pytest.mark.needs("kafka")
def test_java(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(secured.java())
    to = ["--bootstrap-server", secured.bootstrap, "--command-config", str(file), "--topic", "java"]
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    written = shared_tools().run("org.apache.kafka.tools.ConsoleProducer", *to, stdin=lines)
    assert written.code == 0, written
    limits = ["--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "30000"]
    read = shared_tools().run("org.apache.kafka.tools.consumer.ConsoleConsumer", *to, *limits)
    assert read.out == lines, read


@pytest.mark.needs("java", "mvn")
@pytest.mark.skipif(not is_long(), reason="two processes of Java: HEADRACE_EFFORT=long")
def test_java_3_9(secured: Secured, tmp_path: Path) -> None:
    """The last version of Java's client before Kafka 4."""
    file = tmp_path / "client.properties"
    file.write_text(secured.java())
    artifacts = [("org.apache.kafka", name, "3.9.1", "") for name in ("kafka-tools", "kafka_2.13")]
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars("kafka-tools-3.9.1", *artifacts)]
    to = ["--bootstrap-server", secured.bootstrap, "--topic", "java-3.9"]
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    produce = [*java, "kafka.tools.ConsoleProducer", *to, "--producer.config", str(file)]
    subprocess.run(produce, input=lines, text=True, check=True, timeout=120)
    consume = [*java, "org.apache.kafka.tools.consumer.ConsoleConsumer", *to, "--consumer.config", str(file)]
    limits = ["--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "60000"]
    read = subprocess.run([*consume, *limits], capture_output=True, text=True, check=True, timeout=120)
    assert read.stdout == lines, read


def test_a_client_without_the_password_gets_nothing(secured: Secured) -> None:
    errors: list[object] = []
    wrong = secured.librdkafka() | {"sasl.password": "guess", "log_level": "0", "message.timeout.ms": "1500"}
    producer = Producer(wrong)
    producer.produce("confluent", b"forged", on_delivery=lambda error, _: errors.append(error))
    producer.flush(PATIENCE_S)
    assert len(errors) == 1 and errors[0] is not None
