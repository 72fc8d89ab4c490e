"""A secured cluster: brokers and clients use TLS and SCRAM. Nothing is lost while a broker is killed, the certificates
are renewed and passwords change, all under load."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.cluster.secured_listeners import MECHANISM, SASL_SSL
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.cluster import RunningCluster
from tests.support.zookeeper import ZooKeeperServer

PARTITIONS = 3


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("sasl-ssl")
    zookeeper = ZooKeeperServer(directory / "zookeeper")
    zookeeper.start()
    try:
        guarded = {
            "zookeeper.set.acl": "true",
            "zookeeper.digest.user": "headrace",
            "zookeeper.digest.password": "of the store",
        }
        add_first_user(directory, zookeeper.connect, guarded)
        settings = {
            **guarded,
            **SASL_SSL,
        }
        own = {number: authority.issue(f"broker-{number}").properties() for number in (1, 2, 3)}
        with RunningCluster(directory, settings=settings, connect=zookeeper.connect, own=own.__getitem__) as running:
            yield running
    finally:
        zookeeper.stop()


def add_first_user(directory: Path, connect: str, settings: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "headrace.cli",
        "security",
        "add-user",
        "broker",
        "--data",
        str(directory / "first"),
    ]
    for name, value in {"zookeeper.connect": connect, **settings}.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, input="sesame\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def client(cluster: RunningCluster, authority: Authority, user: str, password: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(authority.certificate),
        "log_level": 0,
    }


def set_password(admin: AdminClient, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin.alter_user_scram_credentials([change])[user].result(PATIENCE_S)


class Load:
    """Writes numbered records until it is stopped, and counts the acknowledged ones."""

    def __init__(self, settings: dict[str, str | int], topic: str, first: int = 0) -> None:
        self._first = first
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._topic = topic
        self._producer = Producer({**settings, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = self._first
        while not self._over.is_set():
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._delivered(number))
            number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, number: int) -> Callable[[object, object], None]:
        def note(error: object, _: object) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failed.append(f"{number}: {error}")

        return note

    def advances(self, what: str, by: int = 200) -> None:
        """Waits until that many more records are acknowledged."""
        before = len(self.acknowledged)
        wait_for(lambda: len(self.acknowledged) >= before + by, f"records to be acknowledged {what}")

    def stop(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S * 2)
        assert not self._thread.is_alive()


def read_all(settings: dict[str, str | int], topic: str) -> list[int]:
    consumer = Consumer({**settings, "group.id": "check", "enable.auto.commit": False})
    found: list[int] = []
    for partition in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, partition, low)])
        for _ in range(high - low):
            message = consumer.poll(PATIENCE_S)
            assert message is not None and message.error() is None
            value = message.value()
            assert isinstance(value, bytes)
            found.append(int(value))
    consumer.close()
    return found


def logs_in(settings: dict[str, str | int]) -> bool:
    try:
        return len(AdminClient(settings).list_topics(timeout=3).brokers) == 3
    except KafkaException:
        return False


def test_nothing_is_lost_in_a_kill_a_renewal_and_a_password_change(
    cluster: RunningCluster, authority: Authority
) -> None:
    brokers = client(cluster, authority, "broker", "sesame")
    wait_for(lambda: logs_in(brokers), "three brokers")
    admin = AdminClient(brokers)
    admin.create_topics([NewTopic("orders", PARTITIONS, 3, config={"min.insync.replicas": "2"})])["orders"].result(
        PATIENCE_S
    )
    set_password(admin, "load", "first")
    wait_for(lambda: logs_in(client(cluster, authority, "load", "first")), "the new user on all brokers")
    load = Load(client(cluster, authority, "load", "first"), "orders")
    try:
        load.advances("at first")

        cluster.brokers[1].kill()
        load.advances("without broker 1")
        cluster.brokers[1].start()

        shown = {number: certificate(cluster, number) for number in (2, 3)}
        for number in (1, 2, 3):
            authority.issue(f"broker-{number}")
        for number, before in shown.items():
            wait_for(lambda n=number, old=before: certificate(cluster, n) != old, f"the new certificate of {number}")
        load.advances("with new certificates")

        # Open connections stay, and the brokers' own user is not affected.
        set_password(admin, "load", "second")
        wait_for(lambda: logs_in(client(cluster, authority, "load", "second")), "the new password")
        wait_for(lambda: not logs_in(client(cluster, authority, "load", "first")), "the old password is refused")
        load.advances("after the change of its password")
    finally:
        load.stop()
    later = Load(client(cluster, authority, "load", "second"), "orders", first=1_000_000)
    try:
        later.advances("with the new password")
        # A killed broker comes back with the new certificate and logs in to the others.
        cluster.brokers[2].kill()
        later.advances("without broker 2")
        cluster.brokers[2].start()

        def in_sync() -> bool:
            partitions = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"].partitions.values()
            return all(len(one.isrs) == 3 for one in partitions)

        wait_for(in_sync, "every replica in sync again")
    finally:
        later.stop()
    assert load.failed == later.failed == []
    found = read_all(client(cluster, authority, "load", "second"), "orders")
    assert sorted((load.acknowledged | later.acknowledged) - set(found)) == []
    assert len(found) == len(set(found)), "an idempotent producer writes no record twice"
    assert "sesame" not in "".join(broker.output for broker in cluster.brokers.values())


def certificate(cluster: RunningCluster, number: int) -> str:
    host, _, port = cluster.brokers[number].bootstrap.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)
