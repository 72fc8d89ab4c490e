"""Links cut under load, disks damaged, and faults drawn at random for as long as one likes (`make chaos`)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.faults import conclude, controller_of, cut_newest_segments, flip_newest_segments
from tests.cluster.load import Load
from tests.support import zookeeper
from tests.support.cluster import SESSION_TIMEOUT_MS, RunningCluster
from tests.support.effort import is_long
from tests.support.links import Links

CHAOS_S = 60 * float(os.environ.get("MINUTES") or (5 if is_long() else 0.5))
SEED = int(os.environ.get("CHAOS_SEED") or 1)

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300 + 2 * CHAOS_S),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with Links() as links, RunningCluster(tmp_path_factory.mktemp("cluster"), links=links) as running:
        yield running


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, on a whole cluster."""
    cluster.mend_all()
    for broker in cluster.brokers.values():
        broker.resume()
        if not broker.is_up:
            broker.start()
    name = request.node.name.replace("test_", "").replace("_", "-").split("[")[0]
    cluster.create_topic(name)
    cluster.wait_in_sync(name)
    return name


def test_leader_cut_from_zookeeper(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.to_store[leader].cut()
        time.sleep(SESSION_TIMEOUT_MS / 1000 + 2)  # the fault: longer than its session
        load.wait_for_acks(100)
        cluster.to_store[leader].mend()
        load.wait_for_acks(100)
        conclude(cluster, load, topic)


def test_leader_cut_from_its_followers(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.to_broker[leader].cut()
        time.sleep(6)  # longer than replica.lag.time.max.ms
        cluster.to_broker[leader].mend()
        load.wait_for_acks(200)
        conclude(cluster, load, topic)


def test_a_replica_with_a_flipped_byte(cluster: RunningCluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        load.wait_for_acks(200)
        leader = cluster.leader(topic)
        broker = cluster.brokers[next(number for number in cluster.brokers if number != leader)]
        broker.kill()
        flip_newest_segments(broker.data_dir, topic)
        broker.start()
        load.wait_for_acks(100)
        cluster.wait_in_sync(topic)
        conclude(cluster, load, topic)


def test_random_faults(cluster: RunningCluster, topic: str) -> None:
    chance = random.Random(SEED)
    done: dict[str, int] = {}
    with Load(cluster, topic) as load:
        end = time.monotonic() + CHAOS_S
        while time.monotonic() < end:
            fault = chance.choice(FAULTS)
            done[fault.__name__] = done.get(fault.__name__, 0) + 1
            fault(cluster, topic, chance)
            cluster.mend_all()
            for broker in cluster.brokers.values():
                broker.resume()
                if not broker.is_up:
                    broker.start()
            load.wait_for_acks(50, timeout=90)
        conclude(cluster, load, topic)
    gap = load.longest_gap_s
    print(f"{sum(done.values())} faults {done}, {load.acked} acknowledged, none lost, longest silence {gap:.1f} s")


# ---- the faults
# -------------------------------------------------------------------------------------------------------


def kill_leader(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[cluster.leader(topic, chance.randrange(3))].kill()
    time.sleep(chance.uniform(0, SESSION_TIMEOUT_MS / 1000 + 2))


def kill_someone(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[chance.choice(list(cluster.brokers))].kill()
    time.sleep(chance.uniform(0, SESSION_TIMEOUT_MS / 1000 + 2))


def kill_controller(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[controller_of(cluster)].kill()
    time.sleep(chance.uniform(0, SESSION_TIMEOUT_MS / 1000 + 2))


def kill_all(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    for broker in cluster.brokers.values():
        broker.kill()


def kill_two_leaders(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    partition = chance.randrange(3)
    first = cluster.leader(topic, partition)
    cluster.brokers[first].kill()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        now = cluster.leader(topic, partition)
        if now != first:
            cluster.brokers[now].kill()
            return
        time.sleep(0.02)


def freeze(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[cluster.leader(topic, chance.randrange(3))].pause()
    time.sleep(chance.uniform(0.5, SESSION_TIMEOUT_MS / 1000 + 3))


def stop_zookeeper(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.zookeeper.kill()
    time.sleep(chance.uniform(0, SESSION_TIMEOUT_MS / 1000 + 2))
    cluster.zookeeper.start()


def restart_one(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    broker = cluster.brokers[chance.choice(list(cluster.brokers))]
    broker.stop()
    broker.start()


def cut_from_zookeeper(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.to_store[cluster.leader(topic, chance.randrange(3))].cut()
    time.sleep(chance.uniform(1, SESSION_TIMEOUT_MS / 1000 + 3))


def cut_from_others(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.to_broker[cluster.leader(topic, chance.randrange(3))].cut()
    time.sleep(chance.uniform(1, 7))


def lose_tail(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    """Only while the others are whole: what is damaged everywhere cannot be kept."""
    cluster.wait_in_sync(topic)
    leader = cluster.leader(topic)
    broker = cluster.brokers[chance.choice([number for number in cluster.brokers if number != leader])]
    broker.kill()
    cut_newest_segments(broker.data_dir, topic)
    broker.start()
    cluster.wait_in_sync(topic)


FAULTS: tuple[Callable[[RunningCluster, str, random.Random], None], ...] = (
    kill_leader,
    kill_someone,
    kill_controller,
    kill_all,
    kill_two_leaders,
    freeze,
    stop_zookeeper,
    restart_one,
    cut_from_zookeeper,
    cut_from_others,
    lose_tail,
)
