"""Three broker processes and a real ZooKeeper under load, while parts of them are killed, frozen, restarted and
damaged.

Every send, acknowledgement and read is recorded; afterwards the counts of lost, moved, doubled, disordered, vanished
and undelivered records must be zero, and the replicas must hold the same bytes. A run that acknowledged too little is
void.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster.faults import conclude, controller_of, cut_newest_segments
from tests.cluster.load import Load
from tests.support import zookeeper
from tests.support.cluster import SESSION_TIMEOUT_MS, RunningCluster

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, on a whole cluster."""
    for broker in cluster.brokers.values():
        broker.resume()
        if not broker.is_up:
            broker.start()
    name = request.node.name.replace("test_", "").replace("_", "-").split("[")[0]
    cluster.create_topic(name)
    cluster.wait_in_sync(name)
    return name


def test_leader_killed(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.brokers[leader].kill()
        gap = load.wait_for_acks(100)
        cluster.brokers[leader].start()
        load.wait_for_acks(100)
        conclude(cluster, load, topic)
        assert gap < SESSION_TIMEOUT_MS / 1000 + 20, f"writes stood still for {gap:.1f} s"


def test_follower_killed(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        follower = next(number for number in cluster.brokers if number != leader)
        cluster.brokers[follower].kill()
        load.wait_for_acks(100)
        cluster.brokers[follower].start()
        load.wait_for_acks(100)
        conclude(cluster, load, topic)


def test_controller_killed(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        controller = controller_of(cluster)
        cluster.brokers[controller].kill()
        load.wait_for_acks(100)
        cluster.brokers[controller].start()
        load.wait_for_acks(100)
        conclude(cluster, load, topic)


def test_all_killed_at_once(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        load.wait_for_acks(200)
        conclude(cluster, load, topic)


def test_leader_frozen_longer_than_its_session(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.brokers[leader].pause()
        time.sleep(SESSION_TIMEOUT_MS / 1000 + 2)  # the fault itself: silence for that long
        load.wait_for_acks(50)
        cluster.brokers[leader].resume()
        load.wait_for_acks(100)
        conclude(cluster, load, topic)


def test_zookeeper_killed_and_back(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        cluster.zookeeper.kill()
        time.sleep(SESSION_TIMEOUT_MS / 1000 + 1)  # longer than any lease
        cluster.zookeeper.start()
        load.wait_for_acks(200)
        conclude(cluster, load, topic)


def test_rolling_restart(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            broker.start()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic)


def test_a_replica_that_lost_its_tail(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        load.wait_for_acks(200)
        leader = cluster.leader(topic)
        follower = next(number for number in cluster.brokers if number != leader)
        broker = cluster.brokers[follower]
        broker.kill()
        cut_newest_segments(broker.data_dir, topic)
        broker.start()
        load.wait_for_acks(50)
        cluster.wait_in_sync(topic)
        # The one that lost records and got them back takes over from the one that kept them.
        cluster.brokers[leader].kill()
        load.wait_for_acks(100)
        cluster.brokers[leader].start()
        conclude(cluster, load, topic)
