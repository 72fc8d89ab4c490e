"""Headrace's declarations and answers equal those of Apache Kafka 4.3.0."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ConfigResource, KafkaAdminClient, NewTopic

from headrace.config import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigEntry,
    Key,
    Source,
    Type,
    describe_broker,
    describe_group,
    describe_topic,
    load_broker_config,
)
from headrace.config.key import format_value
from tests.reference import kafka as reference

pytestmark = pytest.mark.needs("kafka")

OURS_DIFFERS_BY_DEFAULT = {"listeners"}
Facts = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def facts() -> Facts:
    source = Path(__file__).with_name("KafkaConfigFacts.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{reference.fetch()}/*", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: Facts = {}
    for line in done.stdout.splitlines():
        kind, name, *rest = line.split("\t")
        found.setdefault(kind, {})[name] = rest
    return found


@pytest.mark.parametrize(("kind", "table"), [("broker", BROKER_KEYS), ("topic", TOPIC_KEYS), ("group", GROUP_KEYS)])
def test_types_defaults_and_update_modes_equal_kafkas(kind: str, table: dict[str, Key], facts: Facts) -> None:
    wrong = {}
    for name, key in table.items():
        if key.ours or key.dynamic_only:
            assert name not in facts[kind] or key.dynamic_only
            continue
        kafka_type, default, importance, update, internal = facts[kind][name]
        ours = format_value(key.type, key.default)
        if name in OURS_DIFFERS_BY_DEFAULT:
            assert key.difference
            ours = default
        # Kafka prints this map in hash order.
        if name == "listener.security.protocol.map":
            ours = default = ",".join(sorted(default.split(",")))
        shown = "internal" if key.internal else "public"
        declared = (key.type.name, "\\N" if ours is None else ours, key.importance.name, key.update.value, shown)
        if kind != "broker":
            declared = (*declared[:2], importance, "read-only", shown)
        if declared != (kafka_type, default, importance, update, internal):
            wrong[name] = (declared, (kafka_type, default, importance, update, internal))
    assert wrong == {}


@pytest.mark.parametrize(("kind", "table"), [("broker", BROKER_KEYS), ("topic", TOPIC_KEYS), ("group", GROUP_KEYS)])
def test_every_kafka_key_is_declared_and_every_other_key_is_marked_as_headraces(
    kind: str, table: dict[str, Key], facts: Facts
) -> None:
    assert set(facts[kind]) == {name for name, key in table.items() if not key.ours and not key.dynamic_only}


def test_topics_inherit_from_the_same_broker_keys(facts: Facts) -> None:
    ours = {
        name: ",".join(synonym.name for synonym in key.synonyms)
        for name, key in TOPIC_KEYS.items()
        if key.synonyms and not key.ours
    }
    assert ours == {name: names for name, (names,) in facts["synonyms"].items()}


STATIC = {
    "log.roll.hours": "24",
    "num.partitions": "3",
    "group.share.session.timeout.ms": "46000",
    "log.cleaner.min.cleanable.ratio": "0.50",
}
DYNAMIC_DEFAULT = {"log.retention.ms": "5000", "message.max.bytes": "2000000"}
DYNAMIC_BROKER = {"log.segment.bytes": "5000000"}
GROUP = {"consumer.session.timeout.ms": "50000"}
TOPIC = {"retention.ms": "1000", "cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.00001"}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The answer of a real Kafka node to DescribeConfigs, with values set in every layer."""
    directory = tmp_path_factory.mktemp("kafka")
    with reference.ReferenceKafka(directory, settings=STATIC, heap="256m") as node:
        admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
        admin.create_topics([NewTopic("t", 1, 1, topic_configs=TOPIC)])
        for entity, values in (
            (["--entity-type", "brokers", "--entity-default"], DYNAMIC_DEFAULT),
            (["--entity-type", "brokers", "--entity-name", "1"], DYNAMIC_BROKER),
            (["--entity-type", "groups", "--entity-name", "g"], GROUP),
        ):
            changes = ",".join(f"{key}={value}" for key, value in values.items())
            command = ["--bootstrap-server", node.bootstrap, "--alter", *entity, "--add-config", changes]
            done = reference.run_tool("kafka.admin.ConfigCommand", *command)
            assert done.returncode == 0, done.stdout + done.stderr
        resources = [ConfigResource(kind, name) for kind, name in (("TOPIC", "t"), ("BROKER", "1"), ("GROUP", "g"))]
        for _ in range(100):  # dynamic values reach the node with its next metadata batch
            answers: dict[str, Any] = admin.describe_configs(resources, include_synonyms=True, config_filter="all")
            group = answers["group"]["g"]["consumer.session.timeout.ms"]
            if answers["broker"]["1"]["log.segment.bytes"]["value"] == "5000000" and group["value"] == "50000":
                break
        admin.close()
    return {"topic": answers["topic"]["t"], "broker": answers["broker"]["1"], "group": answers["group"]["g"]}


KAFKAS_WORDS = {
    Source.DYNAMIC_TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
    Source.GROUP: "DYNAMIC_GROUP_CONFIG",
}
# Kafka stores this default itself when a cluster is formatted with newer features.
SET_BY_KRAFT = {"min.insync.replicas"}


def theirs(answer: dict[str, Any], skip: set[str]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (
            entry["value"],
            entry["config_source"],
            entry["config_type"],
            entry["read_only"],
            entry["is_sensitive"],
            [(synonym["name"], synonym["value"], synonym["source"]) for synonym in entry["synonyms"]],
        )
        for name, entry in answer.items()
        if name not in skip
    }


def ours(entries: list[ConfigEntry], table: dict[str, Key], skip: set[str]) -> dict[str, tuple[Any, ...]]:
    return {
        entry.name: (
            entry.value,
            KAFKAS_WORDS[entry.source],
            Type(entry.config_type).name,
            entry.is_read_only,
            entry.is_sensitive,
            [(synonym.name, synonym.value, KAFKAS_WORDS[synonym.source]) for synonym in entry.synonyms],
        )
        for entry in entries
        if not table[entry.name].ours and entry.name not in skip
    }


def test_description_of_a_topic_equals_kafkas(described: dict[str, dict[str, Any]]) -> None:
    broker = load_broker_config(STATIC).with_dynamic(DYNAMIC_BROKER, DYNAMIC_DEFAULT)
    entries = describe_topic(broker, TOPIC)
    assert ours(entries, TOPIC_KEYS, SET_BY_KRAFT) == theirs(described["topic"], SET_BY_KRAFT)


def test_description_of_a_group_equals_kafkas(described: dict[str, dict[str, Any]]) -> None:
    broker = load_broker_config(STATIC).with_dynamic(DYNAMIC_BROKER, DYNAMIC_DEFAULT)
    assert ours(describe_group(broker, GROUP), GROUP_KEYS, set()) == theirs(described["group"], set())


def test_description_of_a_broker_equals_kafkas(described: dict[str, dict[str, Any]]) -> None:
    # Headrace gets the reference node's own settings (addresses, directories).
    static = {
        name: entry["value"]
        for name, entry in described["broker"].items()
        if entry["config_source"] == "STATIC_BROKER_CONFIG"
    }
    broker = load_broker_config(static | STATIC).with_dynamic(DYNAMIC_BROKER, DYNAMIC_DEFAULT)
    skip = SET_BY_KRAFT | OURS_DIFFERS_BY_DEFAULT
    assert ours(describe_broker(broker), BROKER_KEYS, skip) == theirs(described["broker"], skip)
