"""Controllers, leaders and in-sync replicas under heavy faults: frozen and resumed, isolated, killed in turn,
reconfigured.

The brokers run in network namespaces, so that tests can cut the links between them. Runs only in `make chaos`.
With UNIT=1 they are the processes of a unit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster import faults
from tests.cluster.faults import NO_NETWORK, conclude, controller_of, fault_cluster, set_config
from tests.cluster.load import JavaLoad, Load, client_load
from tests.cluster.test_changes_under_faults import reassign, replicas_of
from tests.cluster.test_transactions_across_brokers import transaction_partition
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.network import Network
from tests.support.transaction_load import TransactionLoad
from tests.support.transactions import read_all
from tests.support.unit_cluster import IS_UNIT

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.needs("ip", "nft"),
    pytest.mark.skipif(not is_long(), reason="long: make chaos"),
    pytest.mark.skipif(NO_NETWORK is not None and not IS_UNIT, reason=str(NO_NETWORK)),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        built = stack.enter_context(Network(brokers=3)) if NO_NETWORK is None else None
        yield stack.enter_context(fault_cluster(directory, links=built))


def test_a_frozen_controller_resumes_after_another_was_elected(cluster: RunningCluster, topic: str) -> None:
    """For a moment it believes that it is the controller, with an outdated cluster image."""
    with client_load(cluster, topic) as load:
        for turn in range(3):
            old = controller_of(cluster)
            cluster.brokers[old].pause()
            time.sleep(cluster.session_timeout_s + 1.5)  # the fault: frozen for that long
            name = f"{topic}-{turn}"
            awake = ",".join(cluster.brokers[other].bootstrap for other in cluster.others(old))
            admin = AdminClient({"bootstrap.servers": awake, "log_level": 0})
            wait_for(
                lambda admin=admin, old=old: admin.list_topics(timeout=5).controller_id not in (-1, old),
                "another controller",
            )
            admin.create_topics([NewTopic(name, 4, 2)])[name].result(60)
            cluster.brokers[old].resume()
            wait_for(lambda old=old: controller_of(cluster) != old, "one controller")
            for broker in cluster.brokers.values():
                client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
                wait_for(lambda client=client, name=name: name in client.list_topics(timeout=5).topics, name)
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@pytest.mark.parametrize("way", ["both", "unheard", "deaf"])
def test_broker_reaches_an_unreachable_controller_through_zookeeper(
    cluster: RunningCluster, net: Network, topic: str, way: str
) -> None:
    """Both reach ZooKeeper and the third broker, so both are alive, but they cannot reach each other.

    The broker sends its requests to the controller through ZooKeeper: it continues to lead, and its clients create
    topics.
    """
    with client_load(cluster, topic) as load:
        controller = controller_of(cluster)
        other = cluster.others(controller)[0]
        load.wait_for_acks(200)
        net.cut(other, [controller], incoming=way != "unheard", outgoing=way != "deaf")

        def led_without_the_controller() -> bool:
            led = [p for p in cluster.metadata(topic).values() if p.leader == other]
            return bool(led) and all(controller not in p.isrs for p in led)

        wait_for(led_without_the_controller, "in-sync replicas without the controller")
        load.silence_s()
        admin = AdminClient({"bootstrap.servers": cluster.brokers[other].bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(f"{topic}-meanwhile", 3, 2)])[f"{topic}-meanwhile"].result(60)
        load.silence_s()
        assert led_without_the_controller()
        net.mend()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def in_sync(cluster: RunningCluster, topic: str) -> set[tuple[int, ...]]:
    return {tuple(sorted(p.isrs)) for p in cluster.metadata(topic).values()}


def test_two_brokers_restart_uncleanly_in_turn_with_min_insync_replicas_1(cluster: RunningCluster, topic: str) -> None:
    """min.insync.replicas=1: records on one replica are acknowledged, and only that replica may lead then."""
    set_config(cluster, topic, min_insync_replicas="1")
    with client_load(cluster, topic) as load:
        for _ in range(3):
            leader = cluster.leader(topic)
            for other in cluster.others(leader):
                cluster.brokers[other].kill()
            wait_for(lambda one=leader: in_sync(cluster, topic) == {(one,)}, "one to be alone")
            load.wait_for_acks(100)
            # The only replica with all records stops before another one is in sync again.
            cluster.brokers[leader].kill()
            for other in cluster.others(leader):
                cluster.brokers[other].start()
            # the fault: long enough for the election of a leader that must not lead
            time.sleep(cluster.session_timeout_s + 1)
            assert {p.leader for p in cluster.metadata(topic).values()} <= {-1, leader}
            cluster.heal()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def stands_still(load: Load) -> bool:
    before = load.acked
    time.sleep(1)
    return load.acked == before


def test_min_insync_replicas_changes_while_replicas_leave_and_return(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        for enough in ("3", "1", "2"):
            set_config(cluster, topic, min_insync_replicas=enough)
            leader = cluster.leader(topic)
            load.wait_for_acks(50)
            cluster.brokers[cluster.others(leader)[0]].kill()
            if enough == "3":
                wait_for(lambda: all(len(members) == 2 for members in in_sync(cluster, topic)), "two in sync")
                wait_for(lambda: stands_still(load), "writes to wait for the third")
                set_config(cluster, topic, min_insync_replicas="2")
            load.wait_for_acks(100)
            cluster.heal()
            cluster.wait_in_sync(topic)
        conclude(cluster, load, topic=topic)


@pytest.mark.needs("kafka", "javac")
def test_the_new_leader_dies_too_under_load_of_both_clients(cluster: RunningCluster, topic: str) -> None:
    with JavaLoad(cluster, topic) as java, Load(cluster, topic) as load:
        first = cluster.leader(topic)
        cluster.brokers[first].kill()
        wait_for(lambda: cluster.leader(topic) != first, "the next leader")
        second = cluster.leader(topic)
        cluster.brokers[first].start()
        cluster.brokers[second].pause()
        time.sleep(cluster.session_timeout_s + 2)  # the fault: frozen for that long
        cluster.brokers[second].resume()
        load.wait_for_acks(100)
        java.wait_for_acks(100)
        conclude(cluster, load, java, topic=topic)


def test_throttled_reassignment_with_kills_and_added_partitions(
    cluster: RunningCluster, topic: str, tmp_path: Path
) -> None:
    """From one replica to three, too slowly to finish: brokers die meanwhile, and new partitions must wait."""
    set_config(cluster, topic, min_insync_replicas="1")
    with client_load(cluster, topic) as load:
        load.wait_for_acks(200)
        holders = {p: info.leader for p, info in cluster.metadata(topic).items()}
        reassign(cluster, tmp_path, {(topic, p): [holder] for p, holder in holders.items()})
        wait_for(lambda: all(len(r) == 1 for r in replicas_of(cluster, topic).values()), "one replica each")
        load.wait_for_acks(1000)
        three = {(topic, p): [h, *cluster.others(h)] for p, h in holders.items()}
        reassign(cluster, tmp_path, three, "--throttle", "1000")

        def grow(partitions: int) -> None:
            admin = cluster.admin()  # kept until the answer arrives
            admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)

        grow(4)  # as Kafka does: with as many replicas as the others are getting
        cluster.brokers[controller_of(cluster)].kill()
        load.wait_for_acks(50)
        cluster.heal()
        grow(5)
        cluster.brokers[cluster.others(controller_of(cluster))[0]].kill()
        cluster.heal()
        reassign(cluster, tmp_path, three, "--additional", "--throttle", "100000000")
        cluster.wait_in_sync(topic)
        assert set(map(tuple, replicas_of(cluster, topic).values())) == {(1, 2, 3)}
        set_config(cluster, topic, min_insync_replicas="2")
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@pytest.mark.needs("kafka", "javac")
def test_transactions_while_brokers_are_isolated_and_killed(cluster: RunningCluster, net: Network, topic: str) -> None:
    """`read_committed` consumers see complete transactions, with both protocol versions, whatever happens to
    leaders and coordinators."""
    stop = threading.Event()
    loads = [TransactionLoad(name, cluster.bootstrap, topic, 3, seed=at) for at, name in enumerate(("java", "classic"))]
    patient = ["retry.backoff.ms=50", "delivery.timeout.ms=60000", "request.timeout.ms=15000"]
    threads = [
        threading.Thread(target=loads[0].run_java, args=(lambda: not stop.is_set(), patient)),
        threading.Thread(target=loads[1].run_classic, args=(lambda: not stop.is_set(), 60)),
    ]
    for thread in threads:
        thread.start()

    def progress(more: int = 3) -> None:
        goals = [load.committed + more for load in loads]
        wait_for(lambda: all(load.committed >= goal for load, goal in zip(loads, goals, strict=True)), "transactions")

    try:
        progress()
        leader = cluster.leader(topic)
        net.cut(leader, cluster.others(leader))
        time.sleep(5)  # the fault: longer than replica.lag.time.max.ms
        net.mend()
        progress()
        faults.kill_all(cluster)
        cluster.heal()
        progress()
        cluster.brokers[cluster.leader("__transaction_state", transaction_partition("java"))].pause()
        time.sleep(cluster.session_timeout_s + 1)
        cluster.heal()
        progress()
    finally:
        stop.set()
        for thread in threads:
            thread.join(180)
    cluster.heal()
    cluster.wait_in_sync(topic)

    def torn() -> list[object]:
        visible = read_all(cluster.bootstrap, topic, wait=60)
        return [*loads[0].torn(visible), *loads[1].torn(visible)]

    wait_for(lambda: not torn(), lambda: f"complete transactions: {torn()}", poll=1)
    faults.same_bytes(cluster, topic)
