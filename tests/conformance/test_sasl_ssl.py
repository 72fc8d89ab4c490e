"""SASL_SSL: the principal comes from the SASL login, not from the TLS certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from headrace.client.blocking.client import BlockingClient
from headrace.client.security import ClientSecurity
from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.support.certificates import Authority
from tests.support.clock import Stopwatch, wait_for


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[RunningBroker]:
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.client.auth": "requested",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="sesame";'
        ),
        **authority.issue("broker").properties(),
    }
    with running_broker(settings) as running:
        yield running


def settings(broker: RunningBroker, authority: Authority, password: str = "sesame") -> dict[str, str]:
    erin = authority.issue("erin", hosts=())
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "anna",
        "sasl.password": password,
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(erin.certificate),
        "ssl.key.location": str(erin.private_key),
    }


def principals(broker: RunningBroker) -> set[str]:
    return {connection.principal for connection in broker.broker.connections.connections}


def test_the_sasl_login_over_tls_determines_the_principal(broker: RunningBroker, authority: Authority) -> None:
    chosen = settings(broker, authority)
    producer = Producer(chosen)
    failures: list[object] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0 and failures == [None]
    assert "User:anna" in principals(broker) and not any("erin" in name for name in principals(broker))
    python = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="anna",
        sasl_plain_password="sesame",
        ssl_cafile=str(authority.certificate),
    )
    python.send("t", b"y").get(30)
    python.close()
    with BlockingClient(broker.bootstrap, security=ClientSecurity.from_settings(chosen)) as own:
        assert set(own.topics(["t"])) == {"t"}


def test_a_certificate_without_a_login_is_not_enough(broker: RunningBroker, authority: Authority) -> None:
    wrong = settings(broker, authority, password="wrong") | {"log_level": "0"}
    with pytest.raises(Exception, match=r"Failed to get metadata|transport"):
        AdminClient(wrong).list_topics(timeout=3)
    only_tls = settings(broker, authority) | {"security.protocol": "SSL", "log_level": "0"}
    with pytest.raises(Exception, match=r"Failed to get metadata|transport"):
        AdminClient(only_tls).list_topics(timeout=3)


def test_a_silent_connection_after_the_handshake_is_closed_at_the_deadline(
    broker: RunningBroker, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    watch = Stopwatch()
    with (
        socket.create_connection((broker.host, broker.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=broker.host) as encrypted,
    ):
        assert encrypted.recv(1) == b""
    watch.at_least(9)
    watch.at_most(25, because="the deadline of a handshake is ten seconds")
    wait_for(lambda: broker.broker.connections.handshakes.dropped >= 1, "the deadline to be counted")
