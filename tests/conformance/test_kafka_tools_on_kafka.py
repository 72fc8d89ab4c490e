"""Our commands and Kafka's own tools against Apache Kafka, and a hanging transaction on both brokers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.net.free_ports import free_port
from headrace.records.builder import Record, build_batch
from headrace.testing import broker
from tests.conformance.kafka_tool_calls import CALLS, Call
from tests.conformance.kafka_tool_runs import check, fill, kafkas, masked, ours_forked
from tests.pipelines.secured_kafka import Certificates
from tests.reference.kafka import KEEPS_OLD_RECORDS, ReferenceKafka
from tests.reference.tools import KafkaTools, shared_tools
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.programs import Programs

pytestmark = pytest.mark.needs("kafka", "openssl")
PRODUCE = 0
# Partition verification is off, so that the test can leave a transaction hanging.
SETTINGS = {"num.partitions": "1", "transaction.partition.verification.enable": "false"}


def _some() -> list[Call]:
    """The first call of every command, and all calls about features: Kafka has more features than Headrace."""
    chosen = []
    for tool, calls in groupby(sorted(CALLS, key=_tool), _tool):
        # Some calls need no broker.
        alike = [c for c in calls if c.says is None and "version-mapping" not in c.words and "-depend" not in c.words]
        chosen += alike if tool == "kafka-features" else alike[:3]
    return chosen


def _tool(call: Call) -> str:
    return call.words.split(" ")[0]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Apache Kafka: its PLAINTEXT address and its SSL address."""
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    few = {f"{name}.num.partitions": "2" for name in internal}
    settings = SETTINGS | KEEPS_OLD_RECORDS | few
    # The calls name broker 0.
    kafka = ReferenceKafka(tmp_path_factory.mktemp("kafka"), settings=settings, heap="256m", node_id=0)
    certificates = Certificates(kafka.directory / "certificates").make()
    tls = f"127.0.0.1:{free_port()}"
    for name, more in {
        "listeners": f"SSL://{tls}", "advertised.listeners": f"SSL://{tls}", "listener.security.protocol.map": "SSL:SSL"
    }.items():  # fmt: skip
        kafka.settings[name] += f",{more}"
    kafka.settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": certificates.store("server")}
    with kafka:
        fill(kafka.bootstrap)
        yield kafka.bootstrap, tls


@pytest.fixture(scope="module")
def apache(secured: tuple[str, str]) -> str:
    return secured[0]


@pytest.fixture(scope="module")
def kafka_tools() -> KafkaTools:
    return shared_tools()


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with Programs() as loaded:
        yield loaded


@pytest.mark.parametrize("call", _some(), ids=lambda call: call.name[:70])
def test_prints_what_kafkas_own_tool_prints_against_apache_kafka(
    call: Call, apache: str, kafka_tools: KafkaTools, programs: Programs, tmp_path: Path
) -> None:
    check(call, apache, kafka_tools, programs, tmp_path)


@pytest.fixture(params=["headrace", "apache"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apache":
        yield request.getfixturevalue("apache")
    else:
        with broker(SETTINGS | KEEPS_OLD_RECORDS) as running:
            yield running.bootstrap


async def _leave_hanging(bootstrap: str, topic: str, producer_id: int) -> None:
    """A transactional batch, one hour old, of a transaction that no coordinator knows."""
    an_hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    batch = build_batch(
        [Record(None, b"x", timestamp_ms=an_hour_ago)],
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    partition = {"index": 0, "records": bytes(batch)}
    body = {"transactional_id": topic, "acks": -1, "timeout": 10_000}
    async with ClusterClient(bootstrap, client_id="test", timeout=30) as client:
        topics = [{"name": topic, "partition_data": [partition]}]
        watch = Stopwatch()
        # Apache Kafka answers CreateTopics before the leader knows the topic.
        while code := await _produced(client, {**body, "topic_data": topics}):
            assert code is ErrorCode.not_leader_or_follower
            assert not watch.has_run(PATIENCE_S)
            await asyncio.sleep(0.1)


async def _produced(client: ClusterClient, body: dict[str, object]) -> ErrorCode:
    answer = await client.request(PRODUCE, body, version=9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_a_hanging_transaction_is_found_and_aborted(
    bootstrap: str, kafka_tools: KafkaTools, programs: Programs
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(f"hangs-{who}", 1) for who in ("ours", "theirs")]).values():
        future.result(60)
    for producer_id, who in enumerate(("ours", "theirs"), start=9000):
        asyncio.run(_leave_hanging(bootstrap, f"hangs-{who}", producer_id))

    def both(*words: str) -> str:
        """Output of our command, which equals that of Kafka's."""
        call = ["kafka-transactions", "--bootstrap-server", bootstrap, *words]
        ours = ours_forked(programs, [word.replace("WHO", "ours") for word in call], "")
        theirs = kafkas(kafka_tools, [word.replace("WHO", "theirs") for word in call], "")
        # Kafka's order depends on hash maps.
        assert sorted(masked(ours.out).split()) == sorted(masked(theirs.out).split()), (ours, theirs)
        assert ours.code == theirs.code, (ours, theirs)
        assert ours.code == 0
        return ours.out

    found = both("find-hanging", "--broker-id", "0")
    assert found.count("hangs-") == 2
    assert "60" in found, "minutes"
    assert "hangs-" not in both("find-hanging", "--broker-id", "0", "--max-transaction-timeout", "61")
    assert both("abort", "--topic", "hangs-WHO", "--partition", "0", "--start-offset", "0") == ""
    assert "hangs-" not in both("find-hanging", "--broker-id", "0")
    assert "None" in both("describe-producers", "--topic", "hangs-ours", "--partition", "0")


def test_doctor_distinguishes_ssl_and_plaintext_listeners_of_kafka(
    secured: tuple[str, str], programs: Programs, tmp_path: Path
) -> None:
    plain, tls = secured

    def doctor(*words: str) -> str:
        env = {**os.environ, "HOME": str(tmp_path)}
        done = programs.run("headrace.cli:main", ["doctor", *words, "--watch-lag", "0"], env=env, cwd=tmp_path)
        assert done.returncode == 1
        return done.stdout.decode()

    found = doctor("-b", tls, "--timeout", "3")
    assert f"{tls} speaks TLS, the client is set to security.protocol=PLAINTEXT" in found
    assert "do: set security.protocol=SSL in the client" in found
    (tmp_path / "client.properties").write_text(f"bootstrap.servers={plain}\nsecurity.protocol=SSL\n")
    found = doctor("--config", "client.properties", "--timeout", "3")
    assert f"{plain} speaks plain text, the client is set to security.protocol=SSL" in found
    assert "do: set security.protocol=PLAINTEXT" in found
