"""The same configuration requests to Apache Kafka and to Headrace give the same answers."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka.admin import ConfigResource, KafkaAdminClient, NewTopic

from headrace.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from headrace.config.key import Key
from headrace.testing import broker
from tests.reference import kafka as reference
from tests.support.clock import wait_for

pytestmark = pytest.mark.needs("kafka")

SETTINGS = {"node.id": "1", "log.roll.hours": "24", "num.partitions": "3"}
Node = tuple[KafkaAdminClient, str]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """(admin client, address) of Apache Kafka and of Headrace, each with the topic `t`."""
    apache = reference.ReferenceKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, heap="256m")
    with apache, broker(settings=SETTINGS) as ours:
        both = [(KafkaAdminClient(bootstrap_servers=at), at) for at in (apache.bootstrap, ours.bootstrap)]
        for admin, _ in both:
            admin.create_topics([NewTopic("t", 1, 1, topic_configs={"retention.ms": "1000"})])
        yield both
        for admin, _ in both:
            admin.close()


def outcome(admin: KafkaAdminClient, kind: str, name: str, key: str, change: Any, *, only_check: bool = False) -> str:
    """`OK`, or the name of the error."""
    resource = ConfigResource(kind, name, {key: change})
    answer = admin.alter_configs([resource], validate_only=only_check, raise_on_unknown=False, incremental=True)
    result: str = next(iter(answer[kind.lower()].values()))
    return result.split(":")[0].split("]")[-1].strip()


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
CHANGES: list[tuple[str, str, str, Any]] = [
    ("TOPIC", "t", "segment.bytes", "3"),
    ("TOPIC", "t", "segment.bytes", "2097152"),
    ("TOPIC", "t", "retention.ms", "-5"),
    ("TOPIC", "t", "retention.ms", "-1"),
    ("TOPIC", "t", "nope.key", "1"),
    ("TOPIC", "t", "cleanup.policy", "foo"),
    ("TOPIC", "t", "cleanup.policy", "compact,delete"),
    ("TOPIC", "t", "cleanup.policy", (SUBTRACT, "delete")),
    ("TOPIC", "t", "cleanup.policy", (APPEND, "delete")),
    ("TOPIC", "t", "cleanup.policy", (APPEND, "delete")),
    ("TOPIC", "t", "retention.bytes", (APPEND, "5")),
    ("TOPIC", "t", "max.message.bytes", "abc"),
    ("TOPIC", "t", "compression.type", "brotli"),
    ("TOPIC", "t", "compression.type", "zstd"),
    ("TOPIC", "t", "compression.zstd.level", "23"),
    ("TOPIC", "t", "min.insync.replicas", "0"),
    ("TOPIC", "t", "unclean.leader.election.enable", "maybe"),
    ("TOPIC", "t", "min.cleanable.dirty.ratio", "1.5"),
    ("TOPIC", "t", "min.compaction.lag.ms", "9223372036854775807"),
    ("TOPIC", "t", "max.compaction.lag.ms", "5"),
    ("TOPIC", "t", "min.compaction.lag.ms", (DELETE, None)),
    ("TOPIC", "t", "message.timestamp.type", "createtime"),
    ("TOPIC", "t", "leader.replication.throttled.replicas", "x"),
    ("TOPIC", "t", "leader.replication.throttled.replicas", "0:1,0:2"),
    ("TOPIC", "t", "internal.segment.bytes", "1000"),
    ("TOPIC", "t", "internal.segment.bytes", (DELETE, None)),
    ("TOPIC", "t", "retention.ms", (DELETE, None)),
    ("TOPIC", "t", "retention.ms", (DELETE, None)),
    ("TOPIC", "absent", "retention.ms", "1000"),
    ("TOPIC", "absent", "nope.key", "1000"),
    ("BROKER", "1", "log.segment.bytes", "3"),
    ("BROKER", "1", "log.segment.bytes", "5000000"),
    ("BROKER", "1", "broker.id", "4"),
    ("BROKER", "1", "message.max.bytes", "x"),
    ("BROKER", "1", "log.retention.hours", "2"),
    ("BROKER", "1", "log.retention.ms", "70000"),
    ("BROKER", "1", "log.cleanup.policy", (APPEND, "compact")),
    ("BROKER", "1", "log.cleanup.policy", (DELETE, None)),
    ("BROKER", "1", "advertised.listeners", "PLAINTEXT://x:1"),
    ("GROUP", "g", "consumer.session.timeout.ms", "50000"),
    ("GROUP", "g", "consumer.session.timeout.ms", "5"),
    ("GROUP", "g", "consumer.heartbeat.interval.ms", "60000"),
    ("GROUP", "g", "nope", "5"),
    ("GROUP", "g", "share.auto.offset.reset", "never"),
    ("GROUP", "g", "share.auto.offset.reset", "by_duration:PT1H"),
    ("GROUP", "", "consumer.session.timeout.ms", "50000"),
]


def test_config_changes_are_accepted_and_rejected_as_in_kafka(nodes: list[Node]) -> None:
    different = []
    for kind, name, key, change in CHANGES:
        only_checked = [outcome(admin, kind, name, key, change, only_check=True) for admin, _ in nodes]
        made = [outcome(admin, kind, name, key, change) for admin, _ in nodes]
        if only_checked[0] != only_checked[1] or made[0] != made[1]:
            different.append((kind, name, key, change, only_checked, made))
    assert different == []


def describe(admin: KafkaAdminClient, kind: str, name: str) -> dict[str, Any]:
    answer = admin.describe_configs([ConfigResource(kind, name)], include_synonyms=True, config_filter="all")
    entries: dict[str, Any] = answer[kind.lower()][name]
    for entry in entries.values():
        entry.pop("documentation", None)  # Headrace has its own texts
    return entries


def comparable(nodes: list[Node], kind: str, name: str, known: Mapping[str, Key] | None) -> list[dict[str, Any]]:
    """The descriptions of Apache Kafka and of Headrace, without entries that must differ."""
    apache, ours = (describe(admin, kind, name) for admin, _ in nodes)
    for entries in (apache, ours):
        for key in list(entries):
            declared = None if known is None else known.get(key)
            chosen_by_the_node = entries[key]["config_source"] == "STATIC_BROKER_CONFIG" and key not in SETTINGS
            if known is not None and (declared is None or declared.ours or chosen_by_the_node):
                del entries[key]
    # Headrace may differ where its start settings or its stored defaults differ from those of the reference node.
    for key in set(apache) ^ set(ours) if kind == "BROKER" else ():
        apache.pop(key, None)
        ours.pop(key, None)
    # Test brokers set the assignment intervals and delays, so that groups form at once.
    intervals = (
        "consumer.assignment.interval.ms",
        "share.assignment.interval.ms",
        "streams.assignment.interval.ms",
        "streams.initial.rebalance.delay.ms",
    )
    of_headrace = [key for key, declared in GROUP_KEYS.items() if declared.ours]
    for key in ("listeners", *((*intervals, *of_headrace) if kind == "GROUP" else ())):
        apache.pop(key, None)
        ours.pop(key, None)
    return [apache, ours]


@pytest.mark.parametrize(("kind", "name"), [("TOPIC", "t"), ("BROKER", "1"), ("GROUP", "g")])
def test_configs_are_described_as_in_kafka_after_the_changes(nodes: list[Node], kind: str, name: str) -> None:
    known = {"TOPIC": TOPIC_KEYS, "BROKER": BROKER_KEYS}.get(kind)
    with contextlib.suppress(AssertionError):
        # A broker of Kafka applies a change after it has answered.
        wait_for(lambda: operator.eq(*comparable(nodes, kind, name, known)), "the same description", within=20)
    apache, ours = comparable(nodes, kind, name, known)
    assert ours == apache


def test_alter_configs_replaces_all_settings(nodes: list[Node]) -> None:
    for admin, _ in nodes:
        resource = ConfigResource("TOPIC", "t", {"retention.ms": "5000"})
        admin.alter_configs([ConfigResource("TOPIC", "t", {"flush.ms": "7"})], incremental=True)
        # The client itself repeats the settings that stay, as the API requires.
        admin.alter_configs([resource], incremental=False)

    def changed(admin: KafkaAdminClient) -> set[str]:
        entries = describe(admin, "TOPIC", "t").items()
        return {key for key, entry in entries if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG"}

    apache, ours = (admin for admin, _ in nodes)
    wait_for(lambda: "flush.ms" in changed(apache), "Kafka to apply the change")
    assert changed(ours) == changed(apache)
    assert {"retention.ms", "flush.ms"} <= changed(ours)


def tool(address: str, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and sorted output of Kafka's kafka-configs for the cluster-wide broker settings."""
    where = ["--bootstrap-server", address, "--entity-type", "brokers", "--entity-default"]
    done = reference.run_tool("kafka.admin.ConfigCommand", *where, *arguments)
    return done.returncode, sorted(line for line in done.stdout.splitlines() if "=" in line and "Error" not in line)


def test_cluster_wide_settings_are_stored_and_described_as_in_kafka(nodes: list[Node]) -> None:
    for change in (
        "log.retention.ms=5000,message.max.bytes=2000000",
        "log.cleaner.threads=x",
        "num.partitions=5",  # read-only while a broker runs
        "listeners=PLAINTEXT://127.0.0.1:1",  # per-broker only
    ):
        apache, ours = (tool(address, "--alter", "--add-config", change)[0] for _, address in nodes)
        assert ours == apache, change
    apache_shows, ours_show = (tool(address, "--describe") for _, address in nodes)
    assert ours_show == apache_shows
    # And min.insync.replicas, which a new cluster stores as a cluster-wide setting.
    assert len(ours_show[1]) == 3
