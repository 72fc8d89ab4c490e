"""Apache Kafka's own tools and clients, from its Maven artifacts, against Headrace."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.reference.kafka import run_tool

pytestmark = pytest.mark.needs("kafka")

TOOLS = "org.apache.kafka.tools"
QUIET = ("[SLF4J", "SLF4J", "WARNING")


def tool(name: str, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
    done: subprocess.CompletedProcess[str] = run_tool(name, *arguments, stdin=stdin, timeout=90)
    if ok:
        assert done.returncode == 0, f"{name} {arguments}:\n{done.stdout}\n{done.stderr}"
        return done.stdout
    return done.stdout + done.stderr


def test_kafka_topics_creates_describes_grows_and_deletes(bootstrap: str, topic: str) -> None:
    command, server = f"{TOOLS}.TopicCommand", ("--bootstrap-server", bootstrap)
    created = tool(command, *server, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=9000")
    assert f"Created topic {topic}." in created
    again = tool(command, *server, "--create", "--topic", topic, ok=False)
    assert "already exists" in again
    tool(command, *server, "--alter", "--topic", topic, "--partitions", "5")
    described = tool(command, *server, "--describe", "--topic", topic)
    assert "PartitionCount: 5" in described
    assert "retention.ms=9000" in described
    assert "Leader: 0" in described
    assert topic in tool(command, *server, "--list").split()
    tool(command, *server, "--delete", "--topic", topic)
    assert topic not in tool(command, *server, "--list").split()


def test_kafka_configs_changes_topics_and_brokers(bootstrap: str, topic: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    tool(f"{TOOLS}.TopicCommand", *server, "--create", "--topic", topic)
    command, entity = "kafka.admin.ConfigCommand", ("--entity-type", "topics", "--entity-name", topic)
    tool(command, *server, *entity, "--alter", "--add-config", "segment.bytes=2000000,cleanup.policy=[compact,delete]")
    described = tool(command, *server, *entity, "--describe")
    assert "segment.bytes=2000000" in described
    assert "cleanup.policy=compact,delete" in described
    tool(command, *server, *entity, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes" not in tool(command, *server, *entity, "--describe")
    refused = tool(command, *server, *entity, "--alter", "--add-config", "segment.bytes=few", ok=False)
    assert "segment.bytes" in refused
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    tool(command, *server, *broker, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tool(command, *server, *broker, "--describe")
    everything = tool(command, *server, *broker, "--describe", "--all")
    assert "num.partitions=1" in everything


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(bootstrap: str, topic: str, codec: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    lines = "".join(f"k{n}:value {n}\n" for n in range(100))
    tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *server, "--topic", topic, "--compression-codec", codec,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:", stdin=lines,
    )  # fmt: skip
    found = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *server, "--topic", topic, "--from-beginning", "--max-messages", "100", "--group", f"g-{topic}",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert found == lines


def test_tools_for_offsets_delete_records_and_log_dirs(bootstrap: str, topic: str, tmp_path: Path) -> None:
    server = ("--bootstrap-server", bootstrap)
    tool("org.apache.kafka.tools.ConsoleProducer", *server, "--topic", topic, stdin="a\nb\nc\nd\n")
    assert tool(f"{TOOLS}.GetOffsetShell", *server, "--topic", topic).strip() == f"{topic}:0:4"
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    deleted = tool(f"{TOOLS}.DeleteRecordsCommand", *server, "--offset-json-file", str(request))
    assert "low_watermark: 3" in deleted
    earliest = tool(f"{TOOLS}.GetOffsetShell", *server, "--topic", topic, "--time", "-2")
    assert earliest.strip() == f"{topic}:0:3"
    described = tool(f"{TOOLS}.LogDirsCommand", *server, "--describe", "--topic-list", topic)
    report = json.loads(described.splitlines()[-1])
    (directory,) = report["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert [p["partition"] for p in directory["partitions"]] == [f"{topic}-0"]


def test_groups_are_listed_described_and_reset(bootstrap: str, topic: str) -> None:
    server, group = ("--bootstrap-server", bootstrap), f"g-{topic}"
    tool("org.apache.kafka.tools.ConsoleProducer", *server, "--topic", topic, stdin="a\nb\nc\n")
    consume = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--group", group)
    tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, *consume)
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    assert group in tool(command, *server, "--list").split()
    described = tool(command, *server, "--describe", "--group", group)
    (row,) = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert row[1:6] == [topic, "0", "3", "3", "0"]
    tool(command, *server, "--reset-offsets", "--to-earliest", "--group", group, "--topic", topic, "--execute")
    described = tool(command, *server, "--describe", "--group", group)
    (row,) = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert row[3:6] == ["0", "3", "3"]
    tool(command, *server, "--delete", "--group", group)
    assert group not in tool(command, *server, "--list").split()


def test_perf_tools_produce_and_consume_all_records(bootstrap: str, topic: str) -> None:
    produced = tool(
        f"{TOOLS}.ProducerPerformance",
        "--topic", topic, "--num-records", "20000", "--record-size", "500", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={bootstrap}",
    )  # fmt: skip
    assert "20000 records sent" in produced
    consumed = tool(
        f"{TOOLS}.ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "20000"
    )
    assert "20000" in consumed.splitlines()[-1]


def test_verifiable_producer_and_consumer_agree(bootstrap: str, topic: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    produced = tool(f"{TOOLS}.VerifiableProducer", *server, "--topic", topic, "--max-messages", "1000", "--acks", "-1")
    events = [json.loads(line) for line in produced.splitlines() if line.startswith("{")]
    summary = next(event for event in events if event["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (1000, 1000)
    consumed = tool(
        f"{TOOLS}.VerifiableConsumer",
        *server, "--topic", topic, "--group-id", f"g-{topic}", "--max-messages", "1000", "--reset-policy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in consumed.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000


def test_cluster_and_features_are_described(bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    assert "Cluster ID:" in tool(f"{TOOLS}.ClusterTool", "cluster-id", *server)
    features = tool(f"{TOOLS}.FeatureCommand", *server, "describe")
    assert "Feature: transaction.version" in features
    versions = tool(f"{TOOLS}.BrokerApiVersionsCommand", *server)
    assert "Produce(0): 0 to 13" in versions
    assert "UNKNOWN" not in versions
    quorum = tool(f"{TOOLS}.MetadataQuorumCommand", *server, "describe", "--status")
    assert re.search(r"LeaderId: +(\d+)\n", quorum) and "MaxFollowerLag:         0" in quorum


def test_kafka_acls_reports_that_no_authorizer_is_configured(bootstrap: str) -> None:
    refused = tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap, "--list", ok=False)
    assert "SecurityDisabledException" in refused
