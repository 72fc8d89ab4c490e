"""Faults combined with changes, and faults combined with other faults.

The brokers run in network namespaces, so that tests can cut the links between them. Runs only in `make chaos`.
With UNIT=1 they are the processes of a unit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from headrace.testing.chaos.history import Place, Value
from tests.cluster import faults
from tests.cluster.faults import NO_NETWORK, conclude, fault_cluster, set_config
from tests.cluster.load import Load, client_load
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.network import Network
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
        built = stack.enter_context(Network(brokers=3)) if NO_NETWORK is None else None
        yield stack.enter_context(
            fault_cluster(directory, links=built, settings=settings, own=lambda number: {"broker.rack": RACKS[number]})
        )


def offsets(cluster: RunningCluster, parts: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    admin = cluster.admin()
    found = admin.list_offsets(dict.fromkeys(parts, which))
    return {p.partition: future.result(60).offset for p, future in found.items()}


# In-sync replicas


def test_min_insync_replicas_is_lowered_while_one_replica_is_in_sync(cluster: RunningCluster, topic: str) -> None:
    """The other replicas were eligible leaders as long as nothing could be committed without them."""
    with client_load(cluster, topic) as load:
        alone = cluster.leader(topic)
        others = cluster.others(alone)
        for other in others:
            cluster.brokers[other].kill()
        wait_for(lambda: all(p.isrs == [alone] for p in cluster.metadata(topic).values()), "one in-sync replica")
        set_config(cluster, topic, min_insync_replicas="1")
        load.wait_for_acks(200)
        cluster.brokers[alone].kill()
        for other in others:
            cluster.brokers[other].start()
        time.sleep(cluster.session_timeout_s + 2)  # long enough for the election of a leader that must not lead
        cluster.heal()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


# Log start offsets that advance


def test_records_are_deleted_while_a_follower_is_down(cluster: RunningCluster, topic: str) -> None:
    """The follower returns with a log end before the leader's log start, starts over there, and then leads."""
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
        assert {p.partition: f.result(60).low_watermark for p, f in deleted.items()} == starts
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


def test_compaction_continues_while_a_follower_is_down(cluster: RunningCluster, topic: str) -> None:
    """Keys that were deleted while the follower was down stay deleted when it returns, catches up and leads."""
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
        "the last record",
    )
    consumer.close()
    kept = {key: value for key, value in last.items() if value is not None}
    assert kept == {
        **{str(key).encode(): b"new" for key in range(100, 200)},
        **{str(key).encode(): b"old" for key in range(200, 300)},
        b"1000": b"6",
    }


# Sizes and speeds


def test_followers_replicate_batches_larger_than_their_fetch_limit(cluster: RunningCluster, topic: str) -> None:
    """Far above replica.fetch.max.bytes: the first batch of an answer is always complete."""
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


# Consumers


@pytest.mark.skipif(IS_UNIT, reason="a unit is one rack")
def test_consumers_in_another_rack_read_correctly_while_leaders_die(
    cluster: RunningCluster, net: Network, topic: str
) -> None:
    """The consumers read from followers, whose high watermark lags, and never see records that are lost later."""
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
            wait_for(lambda: all((p.partition, p.offset) in seen for p in acked if p.offset >= 0), "all to be read")
        finally:
            stop.set()
            reader.join(30)
        assert not moved, moved[:5]
        load.history.reads.extend(
            (Place(partition, offset), Value.decode(value)) for (partition, offset), value in seen.items()
        )
        conclude(cluster, load, topic=topic)
