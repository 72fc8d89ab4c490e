"""A running broker changes its certificate, by a new file and by IncrementalAlterConfigs, and keeps open
connections.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.support.certificates import Authority
from tests.support.clock import wait_for

NAME = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "certificates")


@pytest.fixture
def broker(authority: Authority) -> Iterator[RunningBroker]:
    settings = {"listeners": "SSL://127.0.0.1:0", **authority.issue("broker").properties(), "metrics.listen": ""}
    with running_broker(settings) as running:
        yield running


def shown(broker: RunningBroker) -> str:
    """The certificate that the broker shows to a new connection."""
    return ssl.get_server_certificate((broker.host, broker.port), timeout=10)


def pem(authority: Authority, name: str) -> str:
    text = (authority.directory / f"{name}.crt").read_text()
    return text[: text.index("-----END CERTIFICATE-----") + 25]


def client(broker: RunningBroker, authority: Authority) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
    }


def alter(broker: RunningBroker, authority: Authority, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    admin = AdminClient(client(broker, authority))
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def test_broker_loads_a_new_certificate_file_and_keeps_open_connections(
    broker: RunningBroker, authority: Authority
) -> None:
    delivered: list[object] = []
    producer = Producer(client(broker, authority))
    producer.produce("t", b"before", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(30)
    # Before `shown` opens connections of its own.
    connections = set(broker.broker.connections.connections)
    before = shown(broker)
    authority.issue("broker")
    wait_for(lambda: shown(broker) != before, "the new certificate")
    assert shown(broker).strip() == pem(authority, "broker").strip()
    producer.produce("t", b"after", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(30) == 0 and delivered == [None, None]
    assert connections <= set(broker.broker.connections.connections), "the producer's connections were kept"


def spoil_with_another_name(authority: Authority) -> None:
    authority.issue("broker", subject="CN=somebody else")


def spoil_with_fewer_hosts(authority: Authority) -> None:
    authority.issue("broker", hosts=("localhost",))


def spoil_with_garbage(authority: Authority) -> None:
    (authority.directory / "broker.pem").write_text("-----BEGIN CERTIFICATE-----\n")


def spoil_by_removal(authority: Authority) -> None:
    (authority.directory / "broker.pem").unlink()


@pytest.mark.parametrize(
    "spoil", [spoil_with_another_name, spoil_with_fewer_hosts, spoil_with_garbage, spoil_by_removal]
)
def test_broker_rejects_an_invalid_certificate_file_and_keeps_the_old_one(
    broker: RunningBroker, authority: Authority, spoil: Callable[[Authority], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = shown(broker)
    with caplog.at_level(logging.ERROR, "headrace.broker"):
        spoil(authority)
        wait_for(lambda: "listener SSL keeps its certificate: ssl.keystore.location" in caplog.text, "the refusal")
    assert shown(broker) == before
    authority.issue("broker")
    wait_for(lambda: shown(broker) != before, "a certificate that fits")


def test_incremental_alter_configs_changes_the_file_and_rejects_invalid_ones(
    broker: RunningBroker, authority: Authority
) -> None:
    before = shown(broker)
    good = authority.issue("good", subject="CN=broker")
    alter(broker, authority, NAME, str(good.keystore))
    wait_for(lambda: shown(broker) != before, "the new certificate")
    now = shown(broker)
    assert now.strip() == pem(authority, "good").strip()
    bad = authority.issue("bad", subject="CN=somebody else")
    for location, words in (
        (str(bad.keystore), "is for CN=somebody else, the one in use for CN=broker"),
        ("/nowhere.pem", "the file cannot be read"),
    ):
        with pytest.raises(KafkaException, match=words):
            alter(broker, authority, NAME, location)
    with pytest.raises(KafkaException, match="is a secret"):
        alter(broker, authority, "listener.name.ssl.ssl.key.password", "x")
    assert shown(broker) == now


@pytest.mark.parametrize(
    ("days", "begins_in_days", "words"),
    [(-1, -3, "expired on"), (100, 2, "is not valid before"), (5, -1, "expires in")],
)
def test_broker_serves_a_certificate_outside_its_validity_with_a_warning_and_a_metric(
    authority: Authority, days: float, begins_in_days: float, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    issued = authority.issue("broker", days=days, begins_in_days=begins_in_days)
    with (
        caplog.at_level(logging.WARNING, "headrace.broker"),
        running_broker({"listeners": "SSL://127.0.0.1:0", **issued.properties()}) as running,
    ):
        assert shown(running).strip() == pem(authority, "broker").strip()
        ((labels, left),) = running.broker.certificates.seconds_left()
    assert labels == ("SSL",) and left == pytest.approx(days * 86_400, abs=120)
    assert f"listener SSL: certificate CN=broker {words}" in caplog.text
