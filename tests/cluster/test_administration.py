"""Administration of a cluster whose controller changes, and with Kafka's tools with all brokers and with one down.

Runs only in `make chaos`. `tests/unit/controller/test_controller_turnover.py` tests the decisions on virtual time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.connection import Connection
from headrace.kernel.errors import ErrorCode
from tests.cluster.faults import controller_of
from tests.cluster.load import Load
from tests.reference.tools import KafkaTools
from tests.support import zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not is_long(), reason="long: make chaos"),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]

# Request timeout of Java's clients.
CLIENT_SECONDS = 30
FINE = {
    ErrorCode.none,
    ErrorCode.no_reassignment_in_progress,
    ErrorCode.broker_id_not_registered,
    ErrorCode.preferred_leader_not_available,  # this one was stopped
}
RETRIABLE = {ErrorCode.request_timed_out, ErrorCode.not_controller}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    settings = {"zookeeper.session.timeout.ms": "6000"}
    with RunningCluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        running.create_topic("t", replicas=2)
        yield running


def requests(turn: int) -> list[tuple[int, dict[str, Any]]]:
    """One request of each kind that the controller serves."""
    wait_ms = CLIENT_SECONDS * 1000
    topic = {"name": f"n{turn}", "num_partitions": 1, "replication_factor": 2, "assignments": [], "configs": []}
    growth = {"name": "t", "count": 4 + turn, "assignments": None}
    setting = {"name": "retention.ms", "value": f"{10**9 + turn}"}
    resource = {"resource_type": 2, "resource_name": "t"}
    entity = [{"entity_type": "user", "entity_name": f"u{turn}"}]
    quota = {"key": "producer_byte_rate", "value": 5.0, "remove": False}
    level = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
    cancelled = {"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}
    return [
        (19, {"topics": [topic], "timeout": wait_ms, "validate_only": False}),
        (37, {"topics": [growth], "timeout": wait_ms, "validate_only": False}),
        (44, {"resources": [{**resource, "configs": [{**setting, "config_operation": 0}]}], "validate_only": False}),
        (33, {"resources": [{**resource, "configs": [setting]}], "validate_only": False}),
        (43, {"election_type": 0, "topic_partitions": None, "timeout": wait_ms}),
        (45, {"timeout": wait_ms, "allow_replication_factor_change": True, "topics": [cancelled]}),
        (49, {"entries": [{"entity": entity, "ops": [quota]}], "validate_only": False}),
        (57, {"timeout": wait_ms, "feature_updates": [level], "validate_only": True}),
        (64, {"broker_id": 77}),
    ]  # fmt: skip


def codes_in(answer: Any) -> list[ErrorCode]:
    """The error codes of an answer and of every row in it."""
    if isinstance(answer, tuple | list):
        return [code for row in answer for code in codes_in(row)]
    own = [ErrorCode(answer.error_code)] if hasattr(answer, "error_code") else []
    rows = ("topics", "results", "responses", "entries", "partitions", "replica_election_results", "partition_result")
    return own + [code for name in rows for code in codes_in(getattr(answer, name, ()))]


async def ask_all(address: str, turn: int) -> list[tuple[int, list[ErrorCode]]]:
    host, _, port = address.rpartition(":")

    async def ask(key: int, body: dict[str, Any]) -> tuple[int, list[ErrorCode]]:
        connection = await Connection.open(host, int(port), timeout=CLIENT_SECONDS)
        try:
            return key, codes_in(await connection.request(key, body, timeout=CLIENT_SECONDS))
        finally:
            await connection.close()

    return await asyncio.gather(*(ask(key, body) for key, body in requests(turn)))


@pytest.mark.parametrize(("turn", "how"), [(1, "pause"), (2, "kill"), (3, "stop")])
def test_every_controller_request_ends_in_time_while_the_controller_changes(
    cluster: RunningCluster, turn: int, how: str
) -> None:
    """Sent to a broker that is not the controller, right after the controller was frozen, killed or stopped."""
    controller = controller_of(cluster)
    asked = cluster.brokers[cluster.others(controller)[0]]
    getattr(cluster.brokers[controller], how)()
    try:
        for key, codes in asyncio.run(ask_all(asked.bootstrap, turn)):
            assert codes and set(codes) <= FINE | RETRIABLE, f"request {key} ended in {codes}"
    finally:
        cluster.heal()
        cluster.wait_in_sync("t")


@pytest.mark.needs("kafka")
def test_kafkas_tools_move_replicas_and_leaders_with_and_without_a_broker_down(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    cluster.create_topic("moved", 2, {"min.insync.replicas": "1"}, replicas=2)
    with Load(cluster, "moved") as load:
        load.wait_for_acks(500)
    plan = tmp_path / "plan.json"
    rows = [{"topic": "moved", "partition": p, "replicas": [3, 1, 2]} for p in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    with KafkaTools() as tools:

        def tool(name: str, *words: str, code: int = 0) -> str:
            done = tools.run(f"org.apache.kafka.tools.{name}", "--bootstrap-server", cluster.bootstrap, *words)
            assert done.code == code, done.out + done.err
            return done.out + done.err

        def reassign(*words: str, code: int = 0) -> str:
            plan_words = [] if "--list" in words else ["--reassignment-json-file", str(plan)]
            return tool("reassign.ReassignPartitionsCommand", *words, *plan_words, code=code)

        assert "Successfully started" in reassign("--execute", "--throttle", "1000")
        assert "moved-0: replicas: 3,1,2" in reassign("--list")
        assert "is still in progress" in reassign("--verify", "--preserve-throttles")
        assert "Successfully cancelled partition reassignment" in reassign("--cancel")
        assert "No partition reassignments found" in reassign("--list")
        assert "Successfully started" in reassign("--execute")
        cluster.wait_in_sync("moved")
        wait_for(lambda: "moved-1 is completed" in reassign("--verify"), "the reassignment to end")
        tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
        assert cluster.leader("moved", 0) == cluster.leader("moved", 1) == 3
        cluster.brokers[3].kill()
        wait_for(lambda: cluster.leader("moved", 0) != 3, "another leader")
        described = tool("TopicCommand", "--describe", "--topic", "moved", "--under-replicated-partitions")
        assert described.count("Replicas: 3,1,2") == 2
        said = tool(
            "LeaderElectionCommand", "--election-type", "preferred", "--topic", "moved", "--partition", "0", code=1
        )
        assert "PreferredLeaderNotAvailableException" in said
        assert '"broker":2' in tool("LogDirsCommand", "--describe", "--topic-list", "moved")
        assert "moved:1:" in tool("GetOffsetShell", "--topic", "moved")
        # A stopped broker is still registered: its replicas catch up when it returns.
        assert "Created topic wide" in tool("TopicCommand", "--create", "--topic", "wide", "--replication-factor", "3")
        assert "only 3 broker(s) are registered" in tool(
            "TopicCommand", "--create", "--topic", "wider", "--replication-factor", "4", code=1
        )
        tool("TopicCommand", "--delete", "--topic", "moved")
    cluster.heal()
    cluster.wait_in_sync("t")
    cluster.wait_in_sync("wide")
