"""The broker throttles clients that exceed their quota, whether or not they obey the throttle time."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import ThrottlingQuotaExceededError

from headrace.testing import RunningBroker, broker
from tests.support.clock import Stopwatch, wait_for

ROOT = Path(__file__).resolve().parents[2]
# Two samples of one second instead of eleven: the broker forgets usage sooner, so the tests are short.
QUICK = {
    "quota.window.num": "2",
    "quota.window.size.seconds": "1",
    "controller.quota.window.num": "2",
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(settings=QUICK) as started:
        yield started


def set_quota(running: RunningBroker, *entity: str, **quotas: float) -> None:
    changes = ",".join(f"{name}={value}" for name, value in quotas.items())
    done = subprocess.run(
        [
            ROOT / "bin/kafka-configs.sh",
            "--bootstrap-server",
            running.bootstrap,
            "--alter",
            *entity,
            "--add-config",
            changes,
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def produce(running: RunningBroker, topic: str, client_id: str, count: int) -> tuple[Stopwatch, list[float]]:
    """(a stopwatch that started with the first record, throttle times in the answers)"""
    waits: list[float] = []
    settings = {
        "bootstrap.servers": running.bootstrap,
        "client.id": client_id,
        "linger.ms": 5,
        "batch.num.messages": 20,
    }
    producer = Producer({**settings, "throttle_cb": lambda event: waits.append(event.throttle_time)})
    producer.list_topics(topic, timeout=60)
    watch = Stopwatch()
    for _ in range(count):
        producer.produce(topic, bytes(1000))
        producer.poll(0)
    assert producer.flush(60) == 0
    producer.poll(0)
    return watch, waits


def test_only_the_producer_above_its_quota_is_throttled(running: RunningBroker, topic: str) -> None:
    set_quota(running, "--entity-type", "clients", "--entity-name", "slow", producer_byte_rate=100_000)
    _, no_waits = produce(running, topic, "fast", 300)
    watch, waits = produce(running, topic, "slow", 300)
    watch.at_least(1.0)  # 300 KB at 100 KB a second, with a burst of a second
    assert max(waits) > 0
    assert no_waits == [] or max(no_waits) == 0
    assert running.broker.parts.metering.throttled["produce"] > 0


def test_a_consumer_above_its_quota_reads_everything_later(running: RunningBroker, topic: str) -> None:
    set_quota(running, "--entity-type", "clients", "--entity-name", "reader", consumer_byte_rate=100_000)
    produce(running, topic, "writer", 300)
    waits: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap,
            "client.id": "reader",
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 50_000,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    consumer.subscribe([topic])
    offsets: list[int] = []

    def all_read() -> bool:
        offsets.extend(message.offset() for message in consumer.consume(100, 0.5) if message.error() is None)
        return len(offsets) >= 300

    wait_for(all_read, lambda: f"300 records, {len(offsets)} are read", poll=0)
    consumer.close()
    assert offsets == list(range(300))
    assert max(waits) > 0


def test_topic_changes_above_the_quota_are_rejected(running: RunningBroker, topic: str) -> None:
    set_quota(running, "--entity-type", "users", "--entity-default", controller_mutation_rate=1)
    try:
        with closing(KafkaAdminClient(bootstrap_servers=running.bootstrap)) as admin:
            admin.create_topics([NewTopic(f"{topic}-a", 40, 1)])  # a bucket of two mutations, now 38 seconds in debt
            with pytest.raises(ThrottlingQuotaExceededError):
                admin.create_topics([NewTopic(f"{topic}-b", 3, 1)])
    finally:
        set_quota(running, "--entity-type", "users", "--entity-default", controller_mutation_rate=1000)
    # The debt is paid at the new rate. The first client would wait for the throttle time that the broker gave it.
    with closing(KafkaAdminClient(bootstrap_servers=running.bootstrap)) as admin:
        assert f"{topic}-b" not in admin.list_topics()
        wait_for(lambda: _creates(admin, NewTopic(f"{topic}-b", 1, 1)), "the debt to be paid")


def _creates(admin: KafkaAdminClient, topic: NewTopic) -> bool:
    try:
        admin.create_topics([topic])
    except ThrottlingQuotaExceededError:
        return False
    return True


def test_connections_above_the_quota_of_an_address_are_closed(running: RunningBroker) -> None:
    set_quota(running, "--entity-type", "ips", "--entity-name", "127.0.0.1", connection_creation_rate=3)
    try:
        opened = [socket.create_connection((running.host, running.port), timeout=60) for _ in range(12)]
        # A broker sends nothing unasked, so a read can only return the end of the connection.
        ended, _, _ = select.select(opened, [], [], 5)
        assert ended
        assert len(ended) < len(opened)
        for connection in opened:
            connection.close()
    finally:
        time.sleep(2)  # so that this command gets its connection
        set_quota(running, "--entity-type", "ips", "--entity-name", "127.0.0.1", connection_creation_rate=100_000)
