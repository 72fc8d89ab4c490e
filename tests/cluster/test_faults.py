"""Three broker processes and a real ZooKeeper under load, while they are killed, frozen, isolated, filled and damaged.

The test records every send, acknowledgement and read. Afterwards the counts of lost, moved, duplicate, reordered,
vanished and undelivered records must be zero, and the replicas must be byte-for-byte equal. A run with too few
acknowledgements is void. If network namespaces are available, each broker has one, and the test cuts links by dropping
their packets. One broker has a small disk that the test can fill. With SECURED=1 brokers and clients use TLS, SCRAM and
ACLs. With UNIT=1 the brokers are the processes of a unit (`headrace start --cores 3`), and the store is its supervisor.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster import faults
from tests.cluster.faults import IS_SECURED, NO_NETWORK, conclude, controller_of, fault_cluster
from tests.cluster.load import JavaLoad, Load, client_load
from tests.support import network, small_disk, zookeeper
from tests.support.clock import Stopwatch, wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.network import STORE, Network
from tests.support.small_disk import SmallDisk

CHAOS_S = 60 * float(os.environ.get("MINUTES") or (5 if is_long() else 0.3))
SEED = int(os.environ.get("CHAOS_SEED") or 1)
SMALL = 3  # the broker with the small disk
WAYS = ["both", "unheard", "deaf"]  # unheard: its packets do not arrive; deaf: it gets none

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300 + 2 * CHAOS_S),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]
NO_DISK = small_disk.why_not()
needs_network = pytest.mark.skipif(NO_NETWORK is not None, reason=str(NO_NETWORK))
needs_disk = pytest.mark.skipif(NO_DISK is not None, reason=str(NO_DISK))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        built = stack.enter_context(Network(brokers=3)) if NO_NETWORK is None else None
        running = fault_cluster(directory, links=built)
        if NO_DISK is None:
            stack.enter_context(SmallDisk(running.data_dir(SMALL)))
        yield stack.enter_context(running)


# Killed, frozen, restarted


@pytest.mark.needs("kafka", "javac")
@pytest.mark.skipif(IS_SECURED, reason="the load of the Java clients has no TLS")
def test_leader_then_all_brokers_killed_under_load_of_both_clients(cluster: RunningCluster, topic: str) -> None:
    """Load from librdkafka and from the Java clients at once."""
    with JavaLoad(cluster, topic) as java, Load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.brokers[leader].kill(with_companion=True)
        gap = load.wait_for_acks(100)
        java.wait_for_acks(100)
        cluster.heal()
        cluster.wait_in_sync(topic)
        faults.kill_all(cluster)
        cluster.heal()
        load.wait_for_acks(200)
        java.wait_for_acks(200)
        conclude(cluster, load, java, topic=topic)
        assert gap < cluster.session_timeout_s + 20, f"no write succeeded for {gap:.1f} s"


def test_follower_then_controller_killed(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        cluster.brokers[cluster.others(cluster.leader(topic))[0]].kill()
        load.wait_for_acks(100)
        cluster.heal()
        cluster.wait_in_sync(topic)
        cluster.brokers[controller_of(cluster)].kill(with_companion=True)
        load.wait_for_acks(100)
        cluster.heal()
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def test_leader_frozen_longer_than_its_session(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        leader = cluster.leader(topic)
        cluster.brokers[leader].pause()
        time.sleep(cluster.session_timeout_s + 2)  # the fault itself: frozen for that long
        load.wait_for_acks(50)
        cluster.brokers[leader].resume()
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def test_coordination_store_killed_and_restarted(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        cluster.kill_store()
        time.sleep(cluster.session_timeout_s + 1)  # longer than any lease
        cluster.start_store()
        load.wait_for_acks(200)
        conclude(cluster, load, topic=topic)


def test_rolling_restart(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            broker.start()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


# Cut off


@needs_network
@pytest.mark.needs("ip", "nft")
@pytest.mark.parametrize("way", WAYS if is_long() else ["deaf"])
def test_leader_cut_from_zookeeper(cluster: RunningCluster, net: Network, topic: str, way: str) -> None:
    with client_load(cluster, topic) as load:
        leader = cluster.leader(topic)
        net.cut(leader, [STORE], incoming=way != "unheard", outgoing=way != "deaf")
        # The leader must stop serving by its own clock before another one leads. The history checks this.
        wait_for(lambda: cluster.leader(topic) != leader, "another leader")
        load.wait_for_acks(100)
        net.mend()
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@needs_network
@pytest.mark.needs("ip", "nft")
@pytest.mark.parametrize("way", WAYS if is_long() else ["both", "unheard"])
def test_leader_cut_from_its_followers(cluster: RunningCluster, net: Network, topic: str, way: str) -> None:
    """ZooKeeper sees all brokers, so none is dead. The leader itself must notice that no follower fetches."""
    with client_load(cluster, topic) as load:
        leader = cluster.leader(topic)
        net.cut(leader, cluster.others(leader), incoming=way != "unheard", outgoing=way != "deaf")
        wait_for(lambda: leader not in {p.leader for p in cluster.metadata(topic).values()}, "other leaders")
        load.silence_s()
        net.mend()
        load.wait_for_acks(200)
        conclude(cluster, load, topic=topic)


@needs_network
@pytest.mark.needs("ip", "nft")
@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_a_broker_cut_from_all_others(cluster: RunningCluster, net: Network, topic: str) -> None:
    with client_load(cluster, topic) as load:
        leader = cluster.leader(topic)
        net.cut(leader, [network.CLIENTS, STORE, *cluster.others(leader)])
        load.wait_for_acks(100)
        net.mend()
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


# Disks


def test_a_replica_recovers_after_it_lost_its_newest_records(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        load.wait_for_acks(200)
        leader = cluster.leader(topic)
        broker = cluster.brokers[cluster.others(leader)[0]]
        broker.kill()
        faults.cut_newest_segments(broker.data_dir, topic)
        broker.start()
        load.wait_for_acks(50)
        cluster.wait_in_sync(topic)
        # The broker that lost records and got them back takes over from the one that kept them.
        cluster.brokers[leader].kill()
        load.wait_for_acks(100)
        cluster.brokers[leader].start()
        conclude(cluster, load, topic=topic)


@pytest.mark.skipif(not is_long(), reason="long: make chaos")
def test_a_replica_recovers_from_a_flipped_byte(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        load.wait_for_acks(200)
        broker = cluster.brokers[cluster.others(cluster.leader(topic))[0]]
        broker.kill()
        faults.flip_newest_segments(broker.data_dir, topic)
        broker.start()
        load.wait_for_acks(100)
        cluster.wait_in_sync(topic)
        conclude(cluster, load, topic=topic)


@needs_disk
def test_a_broker_with_a_full_disk_recovers(cluster: RunningCluster, topic: str) -> None:
    """The broker leads a third of the partitions and follows the rest. Producers write to all, and it returns
    when there is space.
    """
    with client_load(cluster, topic) as load:
        assert any(info.leader == SMALL for info in cluster.metadata(topic).values())
        disk = SmallDisk(cluster.data_dir(SMALL))
        disk.fill()
        try:
            wait_for(
                lambda: all(
                    info.leader not in (-1, SMALL) and SMALL not in info.isrs
                    for info in cluster.metadata(topic).values()
                ),
                "others to lead and commit",
            )
            load.silence_s()  # every partition is written
            load.wait_for_acks(200)
        finally:
            disk.make_room()
        cluster.wait_in_sync(topic)
        conclude(cluster, load, topic=topic)
        assert cluster.brokers[SMALL].is_running, "a full disk is no reason to stop"


# All of it


def test_random_faults(cluster: RunningCluster, topic: str) -> None:
    chance = random.Random(SEED)
    drawn = [fault for fault in faults.FAULTS if cluster.network is not None or fault not in faults.CUTS]
    done: dict[str, int] = {}
    with client_load(cluster, topic) as load:
        watch = Stopwatch()
        while not watch.has_run(CHAOS_S):
            fault = chance.choice(drawn)
            done[fault.__name__] = done.get(fault.__name__, 0) + 1
            fault(cluster, topic, chance)
            cluster.heal()
            load.wait_for_acks(50)
        conclude(cluster, load, topic=topic)
    gap = load.longest_gap_s
    print(f"{sum(done.values())} faults {done}, {load.acked} acknowledged, none lost, longest silence {gap:.1f} s")
