"""The same requests to three brokers of Apache Kafka and to three of Headrace give the same answers, field by field.

The test sends them while all brokers run, while one is down, and after it was unregistered. Runs only in `make chaos`
(it starts six brokers). `tests/unit/controller` and `tests/unit/handlers` test the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace.net.free_ports import free_port
from tests.differential.admin_edge_cases import changes, election, features, move
from tests.differential.admin_variants import BROKER, TOPIC, creation, describe, growth, without_configs
from tests.differential.data_variants import batch
from tests.differential.servers import Server, differences, masked
from tests.differential.table import Body
from tests.reference.kafka import ReferenceKafka
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.needs("kafka"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_long(), reason="long: make chaos"),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]

SAME = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
TOPICS = {"orders": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "two": [[1, 2], [2, 1]], "solo": [[3]], "pair": [[3, 1], [1, 3]]}
THROTTLED = "leader.replication.throttled.replicas"
Question = tuple[str, int, int, int, Body]  # name, broker, api key, version, body


def assigned(name: str, *lists: list[int], **more: Any) -> Body:
    rows = [{"partition_index": index, "broker_ids": brokers} for index, brokers in enumerate(lists)]
    return creation(name, partitions=-1, factor=-1, assignments=rows, **more)


def grown(topic: str, count: int, *lists: list[int]) -> Body:
    return growth(topic, count, [{"broker_ids": one} for one in lists] or None, validate_only=True)


def cluster_body(kind: int = 1, *, fenced: bool = False) -> Body:
    return {
        "include_cluster_authorized_operations": False, "endpoint_type": kind, "include_fenced_brokers": fenced,
    }  # fmt: skip


def pages(*topics: str) -> Body:
    return {"topics": [{"name": name} for name in topics], "response_partition_limit": 100, "cursor": None}


def metadata(*topics: str) -> Body:
    rows = [{"topic_id": None, "name": name} for name in topics]
    return {"topics": rows, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def produced(topic: str, partition: int, acks: int = -1) -> Body:
    data = {"name": topic, "partition_data": [{"index": partition, "records": batch(3)}]}
    return {"transactional_id": None, "acks": acks, "timeout": 3000, "topic_data": [data]}


def listed(partition: int, epoch: int, asker: int = -1) -> Body:
    row = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": -1}
    return {"replica_id": asker, "isolation_level": 0, "topics": [{"name": "orders", "partitions": [row]}]}


def epochs(*rows: tuple[int, int, int]) -> Body:
    asked = [{"partition": p, "current_leader_epoch": now, "leader_epoch": epoch} for p, now, epoch in rows]
    return {"replica_id": -1, "topics": [{"topic": "orders", "partitions": asked}]}


LIST: Body = {"timeout": 5000, "topics": None}
PRODUCERS: Body = {"topics": [{"name": "orders", "partition_indexes": [0, 1, 9]}]}
ALL_THERE: list[Question] = [
    ("unknown-broker", 2, 19, 7, assigned("a", [1, 9])),
    ("doubled-broker", 2, 19, 7, assigned("a", [1, 1])),
    ("uneven", 2, 19, 7, assigned("a", [1, 2], [1])),
    ("too-many-replicas", 2, 19, 7, creation("a", factor=4)),
    ("placed", 2, 19, 7, creation("a", partitions=5, factor=3, validate_only=True)),
    ("unknown-broker", 3, 37, 3, grown("two", 3, [1, 9])),
    ("another-factor", 3, 37, 3, grown("two", 3, [1, 2, 3])),
    ("unknown-broker", 1, 45, 1, move((0, [1, 9]), topic="two")),
    ("factor-must-stay", 1, 45, 1, move((0, [1, 2, 3]), topic="two", allow_replication_factor_change=False)),
    ("nothing-to-cancel", 1, 45, 1, move((0, None), topic="two")),
    ("preferred-already", 1, 43, 2, election(0, [0, 9])),
    ("has-a-leader", 1, 43, 2, election(1, [0])),
    ("all", 1, 43, 2, {"election_type": 0, "topic_partitions": None, "timeout": 5000}),
    ("brokers", 1, 60, 2, cluster_body(fenced=True)),
    ("unknown", 1, 64, 0, {"broker_id": 9}),
    ("write", 1, 0, 9, produced("orders", 0)),
    ("write-at-a-follower", 2, 0, 9, produced("orders", 0)),
    *[(f"epoch-{epoch}-at-{at}", at, 2, 6, listed(0, epoch)) for at in (1, 2) for epoch in (-1, 0, 5)],
    ("debugger-at-a-follower", 2, 2, 6, listed(0, -1, -2)),
    *[(f"at-{at}", at, 23, 4, epochs((0, -1, 0), (0, 0, 0), (0, 5, 0), (0, -1, 7), (9, -1, 0))) for at in (1, 2)],
    ("at-a-follower", 2, 61, 0, PRODUCERS),
    ("trailing-comma", 1, 44, 1, changes((TOPIC, "orders", [(THROTTLED, "0:1,", 0)]))),
    ("rate", 1, 44, 1, changes((BROKER, "1", [("leader.replication.throttled.rate", "9", 0)]), validate_only=False)),
    ("rate", 1, 32, 4, describe(BROKER, "1", ["leader.replication.throttled.rate"], synonyms=True)),
    ("too-high", 1, 57, 2, features(("transaction.version", 9, 1))),
]
ONE_AWAY: list[Question] = [
    ("away", 1, 3, 12, metadata(*TOPICS)),
    ("away", 1, 60, 2, cluster_body()),
    ("away-shown", 1, 60, 2, cluster_body(fenced=True)),
    ("away", 2, 75, 0, pages(*TOPICS)),
    ("three-replicas", 2, 19, 7, creation("b", partitions=2, factor=3, validate_only=True)),
    ("four-replicas", 2, 19, 7, creation("b", factor=4)),
    ("assigned-to-it", 2, 19, 7, assigned("b", [1, 3], validate_only=True)),
    ("assigned-to-it-alone", 2, 19, 7, assigned("b", [3])),
    ("three-replicas", 1, 37, 3, grown("orders", 4)),
    ("assigned-to-it", 1, 37, 3, grown("two", 3, [1, 3])),
    ("preferred-away", 1, 43, 2, election(0, [0, 2])),
    ("nobody-left", 1, 43, 2, election(1, [0], topic="solo")),
    ("below-the-minimum", 1, 0, 9, produced("pair", 1)),
    ("below-the-minimum-unasked", 1, 0, 9, produced("pair", 1, acks=1)),
    ("no-leader", 1, 0, 9, produced("solo", 0)),
    ("move-to-it", 1, 45, 1, move((0, [1, 3]), topic="two")),
    ("moving", 2, 46, 0, LIST),
    ("moving", 1, 3, 12, metadata("two")),
    ("grow-meanwhile", 1, 37, 3, grown("two", 3)),
    ("move-elsewhere", 1, 45, 1, move((0, [3, 2]), topic="two")),
    ("moving-elsewhere", 2, 46, 0, LIST),
    ("elect-meanwhile", 1, 43, 2, election(0, [0], topic="two")),
    ("cancel", 1, 45, 1, move((0, None), topic="two")),
    ("cancelled", 2, 46, 0, LIST),
    ("unregister", 1, 64, 0, {"broker_id": 3}),
    ("unregister-again", 1, 64, 0, {"broker_id": 3}),
    ("forgotten", 1, 60, 2, cluster_body(fenced=True)),
    ("three-replicas-of-two", 2, 19, 7, creation("b", factor=3)),
]
Both = tuple[dict[int, Server], dict[int, Server]]


def kafka_nodes(directory: Any) -> dict[int, ReferenceKafka]:
    controllers = {number: free_port() for number in (1, 2, 3)}
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
    nodes = {}
    for number, controller in controllers.items():
        node = ReferenceKafka(directory / f"kafka-{number}", node_id=number, heap="384m", settings=SAME)
        node.settings |= {
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controller}",
            "broker.rack": f"rack-{number}",
        }
        nodes[number] = node
    return nodes


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Both, Callable[[], None]]]:
    """Both clusters, and a function that stops broker 3 of each."""
    directory = tmp_path_factory.mktemp("clusters")
    nodes = kafka_nodes(directory)
    try:
        for node in nodes.values():
            node.format()
        with ThreadPoolExecutor(3) as together:
            list(together.map(ReferenceKafka.start, nodes.values()))
        own = {number: {"broker.rack": f"rack-{number}"} for number in nodes}
        with RunningCluster(directory / "headrace", settings=SAME, own=lambda number: own[number]) as ours:
            both = (
                {number: Server("Kafka", node.port) for number, node in nodes.items()},
                {number: Server("Headrace", broker.port) for number, broker in ours.brokers.items()},
            )
            for servers in both:
                for server in servers.values():
                    server.peers = [peer for peer in servers.values() if peer is not server]
                prepare(servers)

            def stop() -> None:
                nodes[3].stop()
                ours.brokers[3].stop()
                for servers in both:
                    for server in servers.values():
                        server.peers = [peer for number, peer in servers.items() if peer is not server and number != 3]
                    wait_for(lambda servers=servers: is_away(servers, 3), "broker 3 to be away")

            yield both, stop
    finally:
        for node in nodes.values():
            node.kill()


def prepare(servers: dict[int, Server]) -> None:
    wait_for(lambda: len(servers[1].ask(3, 9, {**metadata(), "topics": []})["brokers"]) == 3, "three brokers")
    for name, lists in TOPICS.items():
        assert servers[1].ask(19, 5, assigned(name, *lists))["topics"][0]["error_code"] == 0
    for server in servers.values():
        wait_for(lambda server=server: is_whole(server), "all partitions to be led")


def is_whole(server: Server) -> bool:
    found = server.ask(3, 12, metadata(*TOPICS))["topics"]
    led = [
        p["leader_id"] > 0 and len(p["isr_nodes"]) == len(p["replica_nodes"]) for t in found for p in t["partitions"]
    ]
    return all(led) and len(led) == sum(map(len, TOPICS.values()))


def is_away(servers: dict[int, Server], number: int) -> bool:
    for at in servers.keys() - {number}:
        answer = servers[at].ask(3, 12, metadata(*TOPICS))
        held = any(number in p["isr_nodes"] for topic in answer["topics"] for p in topic["partitions"])
        if held or len(answer["brokers"]) == len(servers):
            return False
    return True


def told(answer: Any) -> Any:
    """Masks values that differ between clusters: the controller, the keys of a topic, messages without an error."""
    if isinstance(answer, dict) and "topics" in answer and "replica_election_results" not in answer:
        answer = without_configs(answer)
    if isinstance(answer, dict):
        answer = {key: value for key, value in answer.items() if key not in ("controller_id", "error_message")}
    return masked(answer)


def compare(both: Both, questions: list[Question]) -> None:
    found = []
    for name, at, api_key, version, body in questions:
        answers = [told(servers[at].ask(api_key, version, body)) for servers in both]
        found += [f"{name} ({api_key}, at {at}): {line}" for line in differences(*answers)]
    assert not found, "\n".join(found)


def test_answers_equal_kafkas_with_all_brokers_and_with_one_down(stopping: tuple[Both, Callable[[], None]]) -> None:
    both, stop = stopping
    compare(both, ALL_THERE)
    stop()
    compare(both, ONE_AWAY)
