"""A cluster whose brokers use TLS and authenticate each other with certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.cluster import RunningCluster


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("tls")
    broker = authority.issue("broker", hosts=("127.0.0.1",))
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.client.auth": "required",
    }
    # Every keystore format, among brokers that connect to each other.
    of_brokers = {
        1: broker.properties(),
        2: broker.properties()
        | {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(broker.pkcs12("secret")),
            "ssl.keystore.password": "secret",
        },
        3: {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": broker.private_key.read_text(),
            "ssl.keystore.certificate.chain": broker.certificate.read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.pem,
        },
    }
    with RunningCluster(directory, settings=settings, own=of_brokers.__getitem__) as running:
        yield running


def client(cluster: RunningCluster, authority: Authority) -> dict[str, str]:
    erin = authority.issue("erin", hosts=())
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(erin.certificate),
        "ssl.key.location": str(erin.private_key),
    }


def test_records_are_replicated_over_tls_and_survive_the_leader(cluster: RunningCluster, authority: Authority) -> None:
    settings = client(cluster, authority)
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 3, 3, config={"min.insync.replicas": "2"})])["orders"].result(PATIENCE_S)
    failed: list[object] = []
    producer = Producer(settings | {"acks": "all"})

    def noted(error: object, _: object) -> None:
        if error:
            failed.append(error)

    def write(count: int) -> None:
        for number in range(count):
            producer.produce("orders", str(number), on_delivery=noted)
        assert producer.flush(PATIENCE_S) == 0

    def isrs() -> list[int]:
        partitions = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"].partitions
        return [len(one.isrs) for one in partitions.values()]

    write(300)
    wait_for(lambda: isrs() == [3, 3, 3], "every replica in sync")
    cluster.brokers[1].stop()
    write(300)
    cluster.brokers[1].start()
    wait_for(lambda: isrs() == [3, 3, 3], "every replica in sync again")
    assert failed == []
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    for _ in range(600):
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None
    consumer.close()
