"""Two things at once: faults that meet changes, and faults that meet faults.

The cluster lies in network namespaces, so that brokers can be parted. Only in `make chaos`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
)

from tests.cluster import faults
from tests.cluster.faults import conclude, controller_of
from tests.cluster.history import Place, Value
from tests.cluster.load import JavaLoad, Load, client_load
from tests.cluster.test_changes_under_faults import reassign, replicas_of
from tests.support import network, zookeeper
from tests.support.cluster import RunningCluster, wait_for
from tests.support.effort import is_long
from tests.support.network import Network
from tests.support.transaction_load import TransactionLoad
from tests.support.transactions import read_all

NO_NETWORK = network.why_not()
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.needs("ip", "nft"),
    pytest.mark.skipif(not is_long(), reason="long: make chaos"),
    pytest.mark.skipif(NO_NETWORK is not None, reason=str(NO_NETWORK)),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]
RACKS = {1: "east", 2: "west", 3: "west"}
FETCH_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    settings = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.fetch.max.bytes": str(FETCH_BYTES),
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
    }
    with ExitStack() as stack:
        built = stack.enter_context(Network(brokers=3))
        yield stack.enter_context(
            RunningCluster(
                directory, network=built, settings=settings, own=lambda number: {"broker.rack": RACKS[number]}
            )
        )


@pytest.fixture
def net(cluster: RunningCluster) -> Iterator[Network]:
    assert cluster.network is not None
    yield cluster.network
    cluster.network.mend()


def set_config(cluster: RunningCluster, topic: str, **values: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = cluster.admin()  # must live until the answer
    admin.incremental_alter_configs([resource])[resource].result(30)


def offsets(cluster: RunningCluster, parts: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    admin = cluster.admin()
    found = admin.list_offsets(dict.fromkeys(parts, which))
    return {p.partition: future.result(30).offset for p, future in found.items()}


# ---- controllers


def test_a_controller_wakes_up_after_another_was_elected(cluster: RunningCluster, topic: str) -> None:
    """It believes for a moment that it is the controller, with a picture of the past."""
    with client_load(cluster, topic) as load:
        for turn in range(3):
            old = controller_of(cluster)
            cluster.brokers[old].pause()
            time.sleep(cluster.session_timeout_s + 1.5)  # the fault: silence for that long
            name = f"{topic}-{turn}"
            cluster.create_topic(name, 4, replicas=2)
            cluster.brokers[old].resume()
            wait_for(lambda old=old: controller_of(cluster) != old, 30, "one controller")
            for broker in cluster.brokers.values():
                client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
                wait_for(lambda client=client, name=name: name in client.list_topics(timeout=5).topics, 30, name)
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@pytest.mark.parametrize("way", ["both", "unheard", "deaf"])
def test_the_controller_and_one_broker_do_not_hear_each_other(
    cluster: RunningCluster, net: Network, topic: str, way: str
) -> None:
    """Both reach ZooKeeper and the third broker: nobody is dead, and yet they cannot talk."""
    with client_load(cluster, topic) as load:
        controller = controller_of(cluster)
        other = cluster.others(controller)[0]
        net.cut(other, [controller], incoming=way != "unheard", outgoing=way != "deaf")
        load.wait_for_acks(200, timeout=120)
        time.sleep(6)  # longer than replica.lag.time.max.ms: the sets must change, by requests that do not arrive
        load.wait_for_acks(100, timeout=120)
        net.mend()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


# ---- in-sync sets


def test_two_restart_uncleanly_in_turn_with_one_replica_enough(cluster: RunningCluster, topic: str) -> None:
    """min.insync.replicas=1: what one replica holds is acknowledged, and it alone may lead then."""
    set_config(cluster, topic, min_insync_replicas="1")
    with client_load(cluster, topic) as load:
        for _ in range(3):
            leader = cluster.leader(topic)
            for other in cluster.others(leader):
                cluster.brokers[other].kill()
            load.wait_for_acks(100)
            # The only one that has everything goes, before anybody else is back in sync.
            cluster.brokers[leader].kill()
            for other in cluster.others(leader):
                cluster.brokers[other].start()
            time.sleep(cluster.session_timeout_s + 1)  # the fault: long enough to elect somebody who may not be
            cluster.heal()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def test_min_insync_changes_while_replicas_come_and_go(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        for enough in ("3", "1", "2"):
            set_config(cluster, topic, min_insync_replicas=enough)
            leader = cluster.leader(topic)
            load.wait_for_acks(50)
            cluster.brokers[cluster.others(leader)[0]].kill()
            if enough == "3":
                time.sleep(cluster.session_timeout_s + 1)  # nothing may be acknowledged now
                set_config(cluster, topic, min_insync_replicas="2")
            load.wait_for_acks(100)
            cluster.heal()
            cluster.wait_in_sync(topic)
        conclude(cluster, load, topic=topic)


def test_one_replica_becomes_enough_while_it_is_alone(cluster: RunningCluster, topic: str) -> None:
    """The others were eligible to lead as long as nothing could be committed without them."""
    with client_load(cluster, topic) as load:
        alone = cluster.leader(topic)
        others = cluster.others(alone)
        for other in others:
            cluster.brokers[other].kill()
        wait_for(lambda: all(p.isrs == [alone] for p in cluster.metadata(topic).values()), 60, "one to be alone")
        set_config(cluster, topic, min_insync_replicas="1")
        load.wait_for_acks(200)
        cluster.brokers[alone].kill()
        for other in others:
            cluster.brokers[other].start()
        time.sleep(cluster.session_timeout_s + 2)  # long enough to elect somebody who may not be
        cluster.heal()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


@pytest.mark.needs("kafka", "javac")
def test_the_new_leader_dies_too_under_both_clients(cluster: RunningCluster, topic: str) -> None:
    with JavaLoad(cluster, topic) as java, Load(cluster, topic) as load:
        first = cluster.leader(topic)
        cluster.brokers[first].kill()
        wait_for(lambda: cluster.leader(topic) != first, 30, "the next leader")
        second = cluster.leader(topic)
        cluster.brokers[first].start()
        cluster.brokers[second].pause()
        time.sleep(cluster.session_timeout_s + 2)  # the fault: silence for that long
        cluster.brokers[second].resume()
        load.wait_for_acks(100)
        java.wait_for_acks(100)
        conclude(cluster, load, java, topic=topic)


# ---- logs that shrink from below


def test_records_are_deleted_while_a_follower_is_away(cluster: RunningCluster, topic: str) -> None:
    """It comes back with an end that lies before everybody's start, begins anew there, and then leads."""
    with client_load(cluster, topic) as load:
        load.wait_for_acks(200)
        away = cluster.others(cluster.leader(topic))[0]
        cluster.brokers[away].kill()
        load.wait_for_acks(600)
        parts = [TopicPartition(topic, p) for p in cluster.metadata(topic)]
        load.stop_writing()
        starts = offsets(cluster, parts, OffsetSpec.latest())
        targets = [TopicPartition(topic, p, offset) for p, offset in starts.items()]
        admin = cluster.admin()
        deleted = admin.delete_records(targets)
        assert {p.partition: f.result(30).low_watermark for p, f in deleted.items()} == starts
        cluster.heal()
        cluster.wait_in_sync(topic)
        for other in cluster.others(away):
            cluster.brokers[other].kill()
        time.sleep(cluster.session_timeout_s + 1)
        cluster.heal()
        cluster.wait_in_sync(topic)
        with Load(cluster, topic) as more:
            more.wait_for_acks(200)
            more.stop_writing()
        assert offsets(cluster, parts, OffsetSpec.earliest()) == starts


def test_compaction_goes_on_while_a_follower_is_away(cluster: RunningCluster, topic: str) -> None:
    """Keys that were deleted while it was away stay deleted when it returns, catches up and leads."""
    set_config(
        cluster,
        topic,
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="1000",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})

    def write(value: bytes | None, keys: range) -> None:
        for key in keys:
            producer.produce(topic, value, key=str(key).encode(), partition=0)
        assert producer.flush(60) == 0

    write(b"old", range(300))
    away = cluster.others(cluster.leader(topic))[0]
    cluster.brokers[away].kill()
    write(None, range(100))
    write(b"new", range(100, 200))
    for turn in range(6):
        time.sleep(1.1)  # a segment's age
        write(str(turn).encode(), range(1000, 1001))
    cluster.heal()
    cluster.wait_in_sync(topic)
    for other in cluster.others(away):
        cluster.brokers[other].kill()
        cluster.heal()
        cluster.wait_in_sync(topic)
    write(b"6", range(1000, 1001))
    last: dict[bytes, bytes | None] = {}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"{topic}-all", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    wait_for(
        lambda: last.update({m.key(): m.value() for m in consumer.consume(1000, 0.5)}) or last.get(b"1000") == b"6",
        60,
        "the last record",
    )
    consumer.close()
    kept = {key: value for key, value in last.items() if value is not None}
    assert kept == {
        **{str(key).encode(): b"new" for key in range(100, 200)},
        **{str(key).encode(): b"old" for key in range(200, 300)},
        b"1000": b"6",
    }


# ---- sizes and speeds


def test_batches_larger_than_a_follower_asks_for(cluster: RunningCluster, topic: str) -> None:
    """Far above replica.fetch.max.bytes: the first batch of an answer always comes whole."""
    large = f"{topic}-large"
    cluster.create_topic(large, 1, {"max.message.bytes": "4000000"})
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 4_000_000, "acks": "all", "log_level": 0}
    )
    with client_load(cluster, topic) as load:
        failed: list[object] = []
        for number in range(30):
            size = (FETCH_BYTES - 100, FETCH_BYTES, FETCH_BYTES + 1, 900_000, 3_500_000)[number % 5]
            producer.produce(large, bytes(size), partition=0, on_delivery=lambda e, _: failed.append(e) if e else None)
            if number == 15:
                cluster.brokers[cluster.leader(large)].kill()
        assert producer.flush(90) == 0
        assert not failed, failed[:3]
        cluster.heal()
        cluster.wait_in_sync(large)
        faults.same_bytes(cluster, large)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def test_a_throttled_move_meets_kills_and_growth(cluster: RunningCluster, topic: str, tmp_path: Path) -> None:
    """Replicas go from three to one and back under a throttle, partitions are added, and brokers die meanwhile."""
    with client_load(cluster, topic) as load:
        load.wait_for_acks(200)
        holders = {p: info.leader for p, info in cluster.metadata(topic).items()}
        reassign(cluster, tmp_path, {(topic, p): [holder] for p, holder in holders.items()})
        set_config(cluster, topic, min_insync_replicas="1")
        wait_for(lambda: all(len(r) == 1 for r in replicas_of(cluster, topic).values()), 60, "one replica each")
        throttled = {"leader_replication_throttled_replicas": "*", "follower_replication_throttled_replicas": "*"}
        set_config(cluster, topic, **throttled)
        reassign(cluster, tmp_path, {(topic, p): [h, *cluster.others(h)] for p, h in holders.items()})
        admin = cluster.admin()
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
        cluster.brokers[controller_of(cluster)].kill()
        load.wait_for_acks(50, timeout=120)
        cluster.heal()
        cluster.brokers[cluster.others(controller_of(cluster))[0]].kill()
        cluster.heal()
        wait_for(lambda: all(len(r) == 3 for r in replicas_of(cluster, topic).values()), 90, "three replicas each")
        cluster.wait_in_sync(topic)
        set_config(cluster, topic, min_insync_replicas="2")
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


# ---- readers


def test_readers_in_another_rack_while_leaders_die(cluster: RunningCluster, net: Network, topic: str) -> None:
    """They read from followers, whose high watermark is behind, and never see what is gone later."""
    seen: dict[tuple[int, int], bytes] = {}
    moved: list[object] = []
    stop = threading.Event()

    def read() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"{topic}-west",
                "client.rack": "west",
                "auto.offset.reset": "error",
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        consumer.assign([TopicPartition(topic, p, 0) for p in range(3)])
        while not stop.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    place = (message.partition(), message.offset())
                    if seen.setdefault(place, message.value()) != message.value():
                        moved.append(place)
        consumer.close()

    reader = threading.Thread(target=read)
    with client_load(cluster, topic) as load:
        reader.start()
        try:
            load.wait_for_acks(200)
            for _ in range(2):
                cluster.brokers[cluster.leader(topic)].kill()
                load.wait_for_acks(100)
                cluster.heal()
                cluster.wait_in_sync(topic)
            follower = cluster.others(cluster.leader(topic))[0]
            cluster.brokers[follower].pause()
            time.sleep(2)  # a follower that lags but is in sync
            cluster.brokers[follower].resume()
            load.wait_for_acks(200)
            load.stop_writing()
            acked = set(load.history.acked.values())
            wait_for(lambda: all((p.partition, p.offset) in seen for p in acked if p.offset >= 0), 60, "all to be read")
        finally:
            stop.set()
            reader.join(30)
        assert not moved, moved[:5]
        load.history.reads.extend(
            (Place(partition, offset), Value.decode(value)) for (partition, offset), value in seen.items()
        )
        conclude(cluster, load, topic=topic)


@pytest.mark.needs("kafka", "javac")
def test_transactions_while_brokers_are_parted_and_killed(cluster: RunningCluster, net: Network, topic: str) -> None:
    """Committed readers see whole transactions, by both versions of the protocol, whatever leaders and coordinators
    do."""
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
        wait_for(
            lambda: all(load.committed >= goal for load, goal in zip(loads, goals, strict=True)), 120, "transactions"
        )

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
        cluster.brokers[cluster.leader("__transaction_state")].pause()
        time.sleep(cluster.session_timeout_s + 1)
        cluster.heal()
        progress()
    finally:
        stop.set()
        for thread in threads:
            thread.join(180)
    cluster.heal()
    cluster.wait_in_sync(topic)
    deadline = time.monotonic() + 90
    while (visible := read_all(cluster.bootstrap, topic, wait=60)) and time.monotonic() < deadline:
        if not loads[0].torn(visible) and not loads[1].torn(visible):
            break
        time.sleep(1)
    assert loads[0].torn(visible) == []
    assert loads[1].torn(visible) == []
    faults.same_bytes(cluster, topic)
