"""Changes to a cluster under faults: topics created and deleted, replicas moved, partitions added, groups rebalanced.

All tests share three brokers and clean up after themselves. Tests that run only in `make chaos` say so.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
)

from tests.cluster.faults import conclude, controller_of, fault_cluster
from tests.cluster.load import Load, client_load
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.transactions import read_all, transactional_producer

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]
only_long = pytest.mark.skipif(not is_long(), reason="long: make chaos")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with fault_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def reassign(
    cluster: RunningCluster, directory: Path, targets: dict[tuple[str, int], list[int]], *options: str
) -> None:
    """Starts kafka-reassign-partitions.sh and does not wait for the end."""
    file = directory / "move.json"
    rows = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in targets.items()]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    command = [sys.executable, "-m", "headrace.cli.kafka_tools.reassign_partitions"]
    command += ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file), "--execute", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def replicas_of(cluster: RunningCluster, topic: str) -> dict[int, list[int]]:
    try:
        return {p: sorted(info.replicas) for p, info in cluster.metadata(topic).items()}
    except (RuntimeError, KafkaException):
        return {}


def test_controller_killed_while_topics_are_created_and_deleted(cluster: RunningCluster) -> None:
    """After an answered creation the topic exists, after an answered deletion it does not, on all brokers."""
    stop, made, gone = threading.Event(), set[str](), set[str]()

    def come_and_go() -> None:
        number = 0
        while not stop.is_set():
            admin = cluster.admin()
            name = f"passing-{number}"
            number += 1
            with contextlib.suppress(KafkaException):
                cluster.create_topic(name, 20)
                made.add(name)
                if number % 2:
                    made.discard(name)
                    admin.delete_topics([name], operation_timeout=10)[name].result(60)
                    gone.add(name)

    worker = threading.Thread(target=come_and_go)
    worker.start()
    try:
        for _ in range(3 if is_long() else 1):
            before = len(made) + len(gone)
            wait_for(lambda before=before: len(made) + len(gone) >= before + 4, "topics to be created and deleted")
            cluster.brokers[controller_of(cluster)].kill()
            wait_for(lambda: controller_of(cluster), "another controller")
            cluster.heal()
    finally:
        stop.set()
        worker.join(90)
    for broker in cluster.brokers.values():
        client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        wait_for(lambda client=client: made <= client.list_topics(timeout=5).topics.keys(), "the created topics")
        wait_for(
            lambda client=client: not gone & client.list_topics(timeout=5).topics.keys(),
            "the deleted topics to disappear",
        )
    for name in made:
        cluster.wait_in_sync(name)
    # No partial topic stays: every name can be used again.
    for name in sorted(gone)[:3]:
        cluster.create_topic(name, 2)
    admin = cluster.admin()
    for future in admin.delete_topics([*made, *sorted(gone)[:3]]).values():
        future.result(60)


@only_long
def test_reassignment_to_three_replicas_while_target_and_controller_are_killed(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    cluster.create_topic("alone", 3, {"min.insync.replicas": "1"}, replicas=1)
    with Load(cluster, "alone") as load:
        load.wait_for_acks(200)
        holders = {p: info.replicas[0] for p, info in cluster.metadata("alone").items()}
        reassign(cluster, tmp_path, {("alone", p): [h, *cluster.others(h)] for p, h in holders.items()})
        cluster.brokers[cluster.others(holders[0])[0]].kill()
        time.sleep(0.5)
        cluster.heal()
        cluster.brokers[controller_of(cluster)].kill()
        cluster.heal()
        wait_for(lambda: set(map(tuple, replicas_of(cluster, "alone").values())) == {(1, 2, 3)}, "three replicas")
        cluster.wait_in_sync("alone")
        load.wait_for_acks(100)
        # Down to one replica, then back to three.
        reassign(cluster, tmp_path, {("alone", p): [h] for p, h in holders.items()})
        wait_for(lambda: all(len(r) == 1 for r in replicas_of(cluster, "alone").values()), "one replica each")
        reassign(cluster, tmp_path, {("alone", p): [h, *cluster.others(h)] for p, h in holders.items()})
        cluster.wait_in_sync("alone")
        wait_for(lambda: all(len(r) == 3 for r in replicas_of(cluster, "alone").values()), "three replicas each")
        conclude(cluster, load, topic="alone")


@only_long
def test_partitions_are_added_while_a_follower_is_repeatedly_frozen(cluster: RunningCluster, topic: str) -> None:
    with client_load(cluster, topic) as load:
        admin = cluster.admin()
        follower = cluster.brokers[cluster.others(cluster.leader(topic))[0]]
        for turn in range(8 if is_long() else 3):
            follower.pause()
            time.sleep(0.9)
            follower.resume()
            time.sleep(0.1)
            if turn == 1:
                admin.create_partitions([NewPartitions(topic, 6)])[topic].result(60)
        load.wait_for_acks(300)
        cluster.wait_in_sync(topic)
        conclude(cluster, load, topic=topic)


@only_long
def test_leader_and_coordinator_killed_together_during_a_transaction(cluster: RunningCluster, topic: str) -> None:
    from tests.cluster.test_transactions_across_brokers import transaction_partition

    coordinator_first = transactional_producer(cluster.bootstrap, "together", wait=60)
    coordinator = cluster.leader("__transaction_state", transaction_partition("together"))
    coordinator_first.begin_transaction()
    for number in range(30):
        coordinator_first.produce(topic, f"kept {number}", partition=number % 3)
    assert coordinator_first.flush(60) == 0
    leader = next((info.leader for info in cluster.metadata(topic).values() if info.leader != coordinator), coordinator)
    for number in {coordinator, leader}:
        cluster.brokers[number].kill_at_once()
    for number in {coordinator, leader}:
        cluster.brokers[number].kill()
    healer = threading.Timer(4, cluster.heal)
    healer.start()
    coordinator_first.commit_transaction(120)
    healer.join()
    coordinator_first.begin_transaction()
    coordinator_first.produce(topic, "dropped", partition=0)
    coordinator_first.abort_transaction(60)
    cluster.wait_in_sync(topic)
    assert sorted(read_all(cluster.bootstrap, topic, wait=60)) == sorted(f"kept {number}" for number in range(30))


def test_coordinator_killed_during_a_rebalance(cluster: RunningCluster, topic: str) -> None:
    from headrace.kernel.ids import coordinator_partition
    from headrace.testing.in_process import TEST_SETTINGS

    group = f"{topic}-moving"
    stop, owned = threading.Event(), dict[int, frozenset[int]]()

    def member(number: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "session.timeout.ms": 6000,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not stop.is_set():
            consumer.poll(0.1)
            owned[number] = frozenset(tp.partition for tp in consumer.assignment())
        consumer.close()

    def shared(size: int) -> bool:
        parts = list(owned.values())
        return len(parts) == size and sorted(p for part in parts for p in part) == [0, 1, 2]

    threads = [threading.Thread(target=member, args=(number,)) for number in range(3)]
    try:
        threads[0].start()
        wait_for(lambda: shared(1), "the first member to own everything")
        threads[1].start()  # a rebalance begins
        threads[2].start()
        time.sleep(0.2)
        count = int(TEST_SETTINGS["offsets.topic.num.partitions"])
        cluster.brokers[cluster.leader("__consumer_offsets", coordinator_partition(group, count))].kill()
        wait_for(lambda: shared(3), "three members that share the partitions, each once")
        cluster.heal()
    finally:
        stop.set()
        for thread in threads:
            if thread.is_alive():
                thread.join(30)
    cluster.wait_in_sync(topic)


def test_broker_refuses_a_data_directory_in_use(cluster: RunningCluster) -> None:
    taken = cluster.brokers[1]
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(taken.data_dir), "--listen", "127.0.0.1:0"]
    command += [f"--set={key}={value}" for key, value in taken.settings.items() if key != "broker.id"]
    done = subprocess.run([*command, "--set=broker.id=9"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert str(taken.data_dir) in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert taken.is_running
