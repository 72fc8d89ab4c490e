"""A cluster grows, moves partitions and shrinks while clients use it, with Apache Kafka's own tools.

A fourth broker joins under load, partitions move to it, a broker is drained and leaves: clients retry but get no error,
and no record is lost. A standalone broker becomes the first broker of a cluster and keeps its data.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing.process import BrokerProcess
from tests.cluster.faults import conclude, controller_of
from tests.cluster.load import client_load
from tests.reference.kafka import run_tool
from tests.support import zookeeper
from tests.support.clock import took_at_most, wait_for
from tests.support.cluster import RunningCluster
from tests.support.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.needs("kafka"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def tool(name: str, cluster: RunningCluster, *arguments: str) -> str:
    done: subprocess.CompletedProcess[str] = run_tool(
        name, "--bootstrap-server", cluster.bootstrap, *arguments, timeout=90
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def move(cluster: RunningCluster, directory: Path, targets: dict[tuple[str, int], list[int]], *options: str) -> None:
    """Reassigns with Kafka's tool and waits until the tool's verification succeeds."""
    file = directory / "move.json"
    rows = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in targets.items()]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    tool(REASSIGN, cluster, "--reassignment-json-file", str(file), "--execute", *options)

    def done() -> bool:
        said = tool(REASSIGN, cluster, "--reassignment-json-file", str(file), "--verify")
        return said.count("is completed") == len(targets)

    wait_for(done, "the reassignment")


def test_a_broker_joins_and_takes_over_partitions_and_another_one_leaves(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    cluster.create_topic("grows", 6)
    cluster.wait_in_sync("grows")
    with client_load(cluster, "grows") as load:
        cluster.add_broker(4)
        leaver = next(number for number in (1, 2, 3) if number != controller_of(cluster))
        stay = [number for number in (1, 2, 3, 4) if number != leaver]
        targets = {("grows", p): stay[p % 3 :] + stay[: p % 3] for p in range(6)}
        move(cluster, tmp_path, targets, "--throttle", "50000000")
        replicas = {p: set(info.replicas) for p, info in cluster.metadata("grows").items()}
        assert all(held == set(stay) for held in replicas.values()), replicas
        # The group's offsets are on that broker too, so the whole internal topic moves.
        offsets = {("__consumer_offsets", p): stay for p in cluster.metadata("__consumer_offsets")}
        move(cluster, tmp_path, offsets)
        load.wait_for_acks(100)
        assert cluster.brokers[leaver].stop() == 0
        del cluster.brokers[leaver]
        load.wait_for_acks(100)
        conclude(cluster, load, topic="grows")
        took_at_most(load.longest_gap_s, 30, because="writes go on while brokers come and go")


def test_preferred_leader_election_on_request(cluster: RunningCluster) -> None:
    cluster.create_topic("preferred", 3)
    cluster.wait_in_sync("preferred")
    first = min(cluster.brokers)
    cluster.brokers[first].stop()
    cluster.brokers[first].start()
    cluster.wait_in_sync("preferred")
    assert all(info.leader != first for info in cluster.metadata("preferred").values())
    tool(
        "org.apache.kafka.tools.LeaderElectionCommand",
        cluster,
        "--election-type",
        "preferred",
        "--all-topic-partitions",
    )
    wait_for(
        lambda: all(info.leader == info.replicas[0] for info in cluster.metadata("preferred").values()),
        "preferred leaders",
    )


def test_a_throttled_reassignment_is_slow_is_listed_and_can_be_cancelled(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    holders = sorted(cluster.brokers)[:2]
    third = next(number for number in cluster.brokers if number not in holders)
    topics = "org.apache.kafka.tools.TopicCommand"
    tool(topics, cluster, "--create", "--topic", "slow", "--replica-assignment", ":".join(map(str, holders)))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(40):
        producer.produce("slow", bytes(100_000))
    assert producer.flush(60) == 0
    file = tmp_path / "move.json"
    moved = {"topic": "slow", "partition": 0, "replicas": [holders[0], third]}
    file.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    # Four megabytes at a hundred kilobytes a second: the move takes longer than this test.
    tool(REASSIGN, cluster, "--reassignment-json-file", str(file), "--execute", "--throttle", "100000")
    listed = tool(REASSIGN, cluster, "--list")
    assert "slow-0: " in listed
    assert f"adding: {third}. removing: {holders[1]}." in listed
    tool(REASSIGN, cluster, "--reassignment-json-file", str(file), "--cancel")
    wait_for(lambda: sorted(cluster.metadata("slow")[0].replicas) == holders, "the replicas as before")
    assert "No partition reassignments found" in tool(REASSIGN, cluster, "--list")
    wait_for(lambda: not (cluster.data_dir(third) / "slow-0").exists(), "the partial copy to be deleted")


def test_every_broker_describes_topics_alike(cluster: RunningCluster) -> None:
    cluster.create_topic("seen", 4)
    cluster.wait_in_sync("seen")
    told = {
        run_tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", b.bootstrap, "--describe", "--topic", "seen"
        ).stdout
        for b in cluster.brokers.values()
    }
    assert len(told) == 1
    assert "ReplicationFactor: 3" in told.pop()
    said = tool("org.apache.kafka.tools.LogDirsCommand", cluster, "--describe", "--topic-list", "seen")
    described = json.loads(said.splitlines()[-1])
    assert sorted(row["broker"] for row in described["brokers"]) == sorted(cluster.brokers)


def test_a_standalone_broker_becomes_the_first_of_a_cluster(tmp_path: Path) -> None:
    alone = BrokerProcess({"broker.id": "1"}, tmp_path / "first")
    producer = Producer({"bootstrap.servers": alone.bootstrap, "log_level": 0})
    for number in range(500):
        producer.produce("kept", str(number).encode())
    producer.flush(60)
    assert alone.stop() == 0
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        settings = {"zookeeper.connect": server.connect, "offsets.topic.replication.factor": "2"}
        first = BrokerProcess({"broker.id": "1", **settings}, tmp_path / "first")
        second = BrokerProcess({"broker.id": "2", **settings}, tmp_path / "second")
        try:
            consumer = Consumer(
                {
                    "bootstrap.servers": second.bootstrap,
                    "group.id": "g",
                    "auto.offset.reset": "earliest",
                    "log_level": 0,
                }
            )
            consumer.subscribe(["kept"])
            seen: list[bytes] = []
            wait_for(lambda: seen.extend(m.value() for m in consumer.consume(500, 0.5)) or len(seen) >= 500, "500")
            consumer.close()
            assert seen == [str(number).encode() for number in range(500)]
            tools = tmp_path / "move.json"
            tools.write_text(
                json.dumps({"version": 1, "partitions": [{"topic": "kept", "partition": 0, "replicas": [2]}]})
            )
            moved = run_tool(
                REASSIGN, "--bootstrap-server", first.bootstrap, "--reassignment-json-file", str(tools), "--execute"
            )
            assert moved.returncode == 0, moved.stdout + moved.stderr
            wait_for(lambda: (tmp_path / "second" / "kept-0").exists(), "the replica on broker 2")
        finally:
            first.kill()
            second.kill()
