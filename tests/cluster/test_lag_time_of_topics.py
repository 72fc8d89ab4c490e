"""`replica.lag.time.max.ms` of a topic: a stalled follower leaves the in-sync replicas of that topic only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewTopic, ResourceType

from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster

pytestmark = pytest.mark.needs("zookeeper")

LAG = "replica.lag.time.max.ms"
LEADER = 1
# Longer than the test, so that a replica leaves because of its lag and not because its ZooKeeper session ended.
LONG = {LAG: "300000", "zookeeper.session.timeout.ms": "60000"}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("lag"), settings=LONG) as running:
        yield running


def create(cluster: RunningCluster, name: str, config: dict[str, str]) -> None:
    topic = NewTopic(name, 1, replica_assignment=[[LEADER, 2, 3]], config=config)
    admin = cluster.admin()
    admin.create_topics([topic])[name].result(60)
    cluster.wait_in_sync(name)


def in_sync(cluster: RunningCluster, topic: str) -> set[int]:
    return set(cluster.metadata(topic)[0].isrs)


def stall(cluster: RunningCluster, follower: int, *topics: str) -> None:
    """Freezes the follower and writes records that it does not fetch."""
    cluster.brokers[follower].pause()
    producer = Producer({"bootstrap.servers": cluster.brokers[LEADER].bootstrap, "acks": 1})
    for topic in topics:
        producer.produce(topic, "x")
    assert producer.flush(60) == 0


def test_a_stalled_follower_leaves_the_isr_of_the_topic_with_the_short_lag_time_only(cluster: RunningCluster) -> None:
    create(cluster, "short", {LAG: "1000"})
    create(cluster, "long", {})
    admin = cluster.admin()
    controller = admin.describe_cluster().result(60).controller.id
    follower = next(broker for broker in (2, 3) if broker != controller)
    others = {1, 2, 3} - {follower}

    stall(cluster, follower, "short", "long")
    wait_for(lambda: in_sync(cluster, "short") == others, "the follower to leave the in-sync replicas of short")
    assert in_sync(cluster, "long") == {1, 2, 3}
    cluster.heal()
    cluster.wait_in_sync("short")

    resource = ConfigResource(
        ResourceType.TOPIC,
        "long",
        incremental_configs=[ConfigEntry(LAG, "1000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([resource])[resource].result(60)
    shown = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "long")])
    entry = next(iter(shown.values())).result(60)[LAG]
    assert (entry.value, entry.source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    stall(cluster, follower, "long")
    wait_for(lambda: in_sync(cluster, "long") == others, "the changed time to take effect while the broker runs")
