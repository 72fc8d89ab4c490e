"""A cluster whose brokers log in to each other and share one set of users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.clock import PATIENCE_S, Stopwatch, wait_for
from tests.support.cluster import RunningCluster

BROKERS = "broker-secret"
SESSION_MS = 2500
SETTINGS = {
    # One listener for all: clients and brokers log in.
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "zookeeper.set.acl": "false",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="broker" password="{BROKERS}" user_broker="{BROKERS}";'
    ),
    "connections.max.reauth.ms": str(SESSION_MS),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("sasl")
    with RunningCluster(directory, settings=SETTINGS) as running:
        yield running


def client(cluster: RunningCluster, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def test_replication_and_users_across_brokers(cluster: RunningCluster) -> None:
    admin = AdminClient(client(cluster, "PLAIN", "broker", BROKERS))
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(PATIENCE_S)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", info, b"sesame")])["anna"].result(
        PATIENCE_S
    )

    def is_known_to(bootstrap: str) -> bool:
        settings = client(cluster, "SCRAM-SHA-256", "anna", "sesame") | {
            "bootstrap.servers": bootstrap,
            "log_level": "0",
        }
        try:
            return bool(AdminClient(settings).list_topics(timeout=2).brokers)
        except Exception:
            return False

    for broker in cluster.brokers.values():
        wait_for(lambda address=broker.bootstrap: is_known_to(address), f"anna logs in to {broker.bootstrap}")

    # Longer than two sessions: clients and brokers reauthenticate, and no write fails.
    failed: list[object] = []
    producer = Producer(
        {
            **client(cluster, "SCRAM-SHA-256", "anna", "sesame"),
            "acks": "all",
            "retries": 0,
            "enable.idempotence": False,
        }
    )
    written, watch = 0, Stopwatch()
    while not watch.has_run(3 * SESSION_MS / 1000):
        producer.produce("orders", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.02)
        written += 1
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    consumer = Consumer(
        {**client(cluster, "SCRAM-SHA-256", "anna", "sesame"), "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < written:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        read += 1
    consumer.close()
    topics = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"]
    assert all(len(partition.isrs) == 3 for partition in topics.partitions.values())


def test_users_survive_a_restart_of_the_cluster(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        broker.stop()
    for broker in cluster.brokers.values():
        broker.start()

    def logs_in() -> bool:
        try:
            found = AdminClient(client(cluster, "SCRAM-SHA-256", "anna", "sesame")).list_topics(timeout=2)
        except Exception:
            return False
        return len(found.brokers) == 3

    wait_for(logs_in, "anna logs in after the restart")


def test_brokers_refuse_the_login_of_a_broker_with_a_wrong_password(cluster: RunningCluster) -> None:
    broker = cluster.brokers[3]
    broker.stop()
    name = "listener.name.plaintext.plain.sasl.jaas.config"
    right = broker.settings[name]
    broker.settings[name] = right.replace(f'username="broker" password="{BROKERS}"', 'username="broker" password="x"')
    broker.start()
    wait_for(lambda: "refused 'broker'" in broker.output, "the others refuse the login")
    assert BROKERS not in broker.output
    broker.stop()
    broker.settings[name] = right
    broker.start()
