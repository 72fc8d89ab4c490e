"""A topic is deleted while one of its brokers is down: the other brokers delete their logs, the returning broker
sets its own log aside, and a new topic of that name is in sync on all brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.storage.dirs.strays import strays_in
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def produce(cluster: RunningCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for value in range(count):
        producer.produce(topic, str(value).encode())
    assert producer.flush(60) == 0


def delete(cluster: RunningCluster, topic: str) -> None:
    admin = cluster.admin()
    admin.delete_topics([topic])[topic].result(60)


def records_set_aside(cluster: RunningCluster, number: int, topic: str) -> int:
    return sum(s.count_records() for s in strays_in(cluster.data_dir(number)) if s.topic == topic)


@pytest.mark.parametrize("made_again", [False, True], ids=["deleted", "deleted and created again"])
def test_a_broker_that_was_down_sets_aside_the_log_of_a_deleted_topic(
    cluster: RunningCluster, topic: str, made_again: bool
) -> None:
    produce(cluster, topic, 300)
    cluster.wait_in_sync(topic)
    away = next(number for number in cluster.brokers if cluster.leader(topic) != number)
    cluster.brokers[away].stop()
    delete(cluster, topic)
    if made_again:
        cluster.create_topic(topic)
        produce(cluster, topic, 50)
    cluster.brokers[away].start()
    wait_for(lambda: records_set_aside(cluster, away, topic) == 300, "the logs to be set aside")
    assert all(records_set_aside(cluster, other, topic) == 0 for other in cluster.others(away))
    if not made_again:
        for other in cluster.others(away):
            assert not list(cluster.data_dir(other).glob(f"{topic}-[0-9]"))
    if made_again:
        cluster.wait_in_sync(topic)
        produce(cluster, topic, 10)
        assert records_set_aside(cluster, away, topic) == 300
