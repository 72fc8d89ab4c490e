"""Unchanged clients over TLS: with a broker certificate only, and with a client certificate too."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.support.certificates import Authority, Issued

COUNT = 200
# Larger than a socket accepts at once, and larger than a TLS record.
LARGE = bytes(range(256)) * 3000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def erin(authority: Authority) -> Issued:
    return authority.issue("erin", subject="CN=erin,O=Other", hosts=())


@pytest.fixture(scope="module", params=["none", "required"])
def broker(request: pytest.FixtureRequest, authority: Authority) -> Iterator[RunningBroker]:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": request.param,
        **authority.issue("broker").properties(),
    }
    with running_broker(settings) as running:
        yield running


def test_openssl_reports_tls_1_3_and_the_certificate_chain(
    broker: RunningBroker, authority: Authority, erin: Issued
) -> None:
    trust = ["-CAfile", str(authority.certificate), "-verify_return_error"]
    shown = ["-cert", str(erin.certificate), "-key", str(erin.private_key)]
    done = subprocess.run(
        ["openssl", "s_client", "-connect", broker.bootstrap, *trust, *shown, "-brief"],
        input="",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "Protocol version: TLSv1.3" in done.stderr
    assert "Verification: OK" in done.stderr


def test_confluent_kafka_writes_and_reads(broker: RunningBroker, authority: Authority, erin: Issued) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(erin.certificate),
        "ssl.key.location": str(erin.private_key),
    }
    producer = Producer(settings | {"message.max.bytes": 2_000_000})
    failures: list[object] = []
    for number in range(COUNT):
        producer.produce(
            "confluent", str(number), on_delivery=lambda error, _: failures.append(error) if error else None
        )
    producer.produce("confluent", LARGE)
    assert producer.flush(30) == 0 and failures == []
    consumer = Consumer(settings | {"group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found: list[bytes] = []
    while len(found) < COUNT + 1:
        message = consumer.poll(20)
        assert message is not None and message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        found.append(value)
    consumer.close()
    assert found == [*(str(number).encode() for number in range(COUNT)), LARGE]


def test_kafka_python_writes_and_reads(broker: RunningBroker, authority: Authority, erin: Issued) -> None:
    settings = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.certificate),
        "ssl_certfile": str(erin.certificate),
        "ssl_keyfile": str(erin.private_key),
    }
    producer = KafkaProducer(**settings, max_request_size=2_000_000)
    sent = [producer.send("python", str(number).encode()) for number in range(COUNT)]
    sent.append(producer.send("python", LARGE))
    for one in sent:
        one.get(30)
    producer.close()
    consumer = KafkaConsumer("python", **settings, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == COUNT + 1:
            break
    consumer.close()
    assert found[-1] == LARGE and len(found) == COUNT + 1


def test_aiokafka_writes_and_reads(broker: RunningBroker, authority: Authority, erin: Issued) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(erin.certificate, erin.private_key)

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SSL",
            ssl_context=context,
            max_request_size=2_000_000,
        )
        async with producer:
            for number in range(COUNT):
                await producer.send("aio", str(number).encode())
            await producer.send_and_wait("aio", LARGE)
        consumer = AIOKafkaConsumer(
            "aio",
            bootstrap_servers=broker.bootstrap,
            security_protocol="SSL",
            ssl_context=context,
            auto_offset_reset="earliest",
        )
        async with consumer, asyncio.timeout(30):
            return [(await consumer.getone()).value for _ in range(COUNT + 1)]

    found = asyncio.run(run())
    assert found == [*(str(number).encode() for number in range(COUNT)), LARGE]


@pytest.mark.needs("kcat")
def test_kcat_writes_and_reads(broker: RunningBroker, authority: Authority, erin: Issued) -> None:
    options = ["-X", "security.protocol=SSL", "-X", f"ssl.ca.location={authority.certificate}"]
    options += ["-X", f"ssl.certificate.location={erin.certificate}", "-X", f"ssl.key.location={erin.private_key}"]
    kcat = ["kcat", "-b", broker.bootstrap, *options]
    subprocess.run([*kcat, "-P", "-t", "kcat"], input="one\ntwo\n", text=True, check=True, timeout=30)
    done = subprocess.run(
        [*kcat, "-C", "-t", "kcat", "-e", "-q"], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "one\ntwo\n"


def test_a_client_without_a_certificate_is_served_only_if_none_is_required(
    broker: RunningBroker, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection((broker.host, broker.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=broker.host) as encrypted,
    ):
        if broker.broker.config["ssl.client.auth"] == "required":
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                encrypted.recv(8)
        else:
            # ApiVersions v0, correlation id 7, no client id.
            encrypted.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
            assert encrypted.recv(8)[4:8] == bytes.fromhex("00000007")
