"""Requests about topics, configuration, the cluster, quotas and ACLs, and requests that only a single broker
answers.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.servers import Server
from tests.differential.table import Body, Variant, create_topic, each_version


def creation(name: str, **more: Any) -> Body:
    topic = {
        "name": name,
        "num_partitions": more.get("partitions", 1),
        "replication_factor": more.get("factor", 1),
        "assignments": more.get("assignments", []),
        "configs": [{"name": k, "value": v} for k, v in more.get("configs", {}).items()],
    }
    return {
        "topics": [topic] * more.get("times", 1),
        "timeout": more.get("timeout", 10_000),
        "validate_only": more.get("validate_only", False),
    }


def without_configs(answer: Any) -> Any:
    """Which keys a topic has is compared in the configuration tests."""
    return {**answer, "topics": [{k: v for k, v in topic.items() if k != "configs"} for topic in answer["topics"]]}


def create(name: str, versions: range = range(2, 8), **more: Any) -> list[Variant]:
    return [
        Variant(name, 19, v, creation(more.get("topic") or f"new-{name}-{v}", **more), only=without_configs)
        for v in versions
    ]


CREATE = [
    *create("plain"),
    *create("default-counts", range(4, 8), partitions=-1, factor=-1),
    *create("there-already", topic="orders"),
    *create("illegal-name", topic="no/good"),
    *create("dots", topic=".."),
    *create("long-name", range(5, 6), topic="x" * 250),
    *create("no-partitions", partitions=0),
    *create("negative-partitions", partitions=-5),
    *create("too-many-replicas", factor=3),
    *create("no-replicas", factor=0),
    *create("unknown-config", range(2, 8, 2), configs={"no.such.key": "1"}),
    *create("wrong-config", range(2, 8, 2), configs={"retention.ms": "soon"}),
    *create("small-segments", range(5, 6), configs={"segment.bytes": "10"}),
    *create("validate-only", range(2, 8, 2), validate_only=True),
    *create("assigned", range(2, 8, 2), partitions=-1, factor=-1, assignments=[{"partition_index": 0, "broker_ids": [1]}]),
    *create("assigned-to-nobody", range(2, 8, 2), partitions=-1, factor=-1, assignments=[{"partition_index": 0, "broker_ids": [9]}]),
    *create("assigned-with-a-gap", range(5, 6), partitions=-1, factor=-1, assignments=[{"partition_index": 1, "broker_ids": [1]}]),
    *create("assigned-and-counted", range(5, 6), partitions=2, factor=1, assignments=[{"partition_index": 0, "broker_ids": [1]}]),
    *create("twice", range(5, 6), times=2),
    *create("no-time", range(5, 6), timeout=0),
    *create("colliding-name", range(5, 6), topic="new.plain-2"),
]  # fmt: skip


def _doomed(version: int) -> Any:
    def before(server: Server) -> None:
        create_topic(server, f"doomed-{version}")

    return before


def _deletion(name: str | None, topic_id: uuid.UUID | None = None, timeout: int = 10_000) -> Body:
    names = [] if name is None else [name]
    return {"topic_names": names, "topics": [{"name": name, "topic_id": topic_id}], "timeout": timeout}


DELETE = [
    *[Variant("one", 20, v, _deletion(f"doomed-{v}"), before=_doomed(v)) for v in range(1, 7)],
    *each_version("unknown", 20, range(1, 7), _deletion("nowhere")),
    Variant("unknown-id", 20, 6, _deletion(None, uuid.UUID(int=77))),
    Variant("no-time", 20, 5, _deletion("orders", timeout=0)),
]


def growth(topic: str, count: int, assignments: Any = None, **more: Any) -> Body:
    return {
        "topics": [{"name": topic, "count": count, "assignments": assignments}],
        "timeout": 10_000,
        "validate_only": more.get("validate_only", False),
    }


def _grown(server: Server) -> None:
    create_topic(server, "grown", 1)


PARTITIONS = [
    *[Variant(f"to-{v + 2}", 37, v, growth("grown", v + 2), before=_grown if v == 0 else None) for v in range(4)],
    *each_version("fewer", 37, range(4), growth("orders", 1)),
    *each_version("as-many", 37, range(4), growth("orders", 3)),
    *each_version("unknown", 37, range(4), growth("nowhere", 5)),
    Variant("validate-only", 37, 2, growth("orders", 9, validate_only=True)),
    Variant("zero", 37, 2, growth("orders", 0)),
    Variant("assigned-to-nobody", 37, 2, growth("orders", 4, [{"broker_ids": [9]}])),
    Variant("assigned-too-few", 37, 2, growth("orders", 5, [{"broker_ids": [1]}])),
]

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
KEYS = [
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "compression.type",
    "segment.bytes",
]
BROKER_KEYS = [
    "num.partitions",
    "auto.create.topics.enable",
    "log.retention.hours",
    "num.io.threads",
    "delete.topic.enable",
]


def describe(
    resource_type: int, name: str, keys: list[str] | None, *, synonyms: bool = False, docs: bool = False
) -> Body:
    return {
        "resources": [{"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": synonyms,
        "include_documentation": docs,
    }


def set_body(resource_type: int, name: str, key: str, value: str | None, **more: Any) -> Body:
    """Uses both APIs."""
    config = {"name": key, "value": value, "config_operation": more.get("operation", 0)}
    return {
        "resources": [{"resource_type": resource_type, "resource_name": name, "configs": [config]}],
        "validate_only": more.get("validate_only", False),
    }


CONFIGS = [
    *each_version("topic", 32, range(1, 5), describe(TOPIC, "orders", KEYS)),
    *each_version("topic-with-synonyms", 32, range(1, 5), describe(TOPIC, "orders", KEYS, synonyms=True)),
    *each_version("topic-overridden", 32, range(1, 5), describe(TOPIC, "compacted", KEYS, synonyms=True)),
    *each_version("unknown-topic", 32, range(1, 5), describe(TOPIC, "nowhere", KEYS)),
    *each_version("illegal-topic", 32, range(1, 5), describe(TOPIC, "no/good", KEYS)),
    *each_version("broker", 32, range(1, 5), describe(BROKER, "1", BROKER_KEYS)),
    *each_version("broker-default", 32, range(1, 5), describe(BROKER, "", BROKER_KEYS)),
    *each_version("other-broker", 32, range(1, 5), describe(BROKER, "7", BROKER_KEYS)),
    *each_version("broker-by-word", 32, range(1, 5), describe(BROKER, "one", BROKER_KEYS)),
    *each_version("wrong-type", 32, range(1, 5), describe(99, "x", None)),
    *each_version("no-such-key", 32, range(1, 5), describe(TOPIC, "orders", ["no.such.key"])),
    *each_version("set", 33, range(3), set_body(TOPIC, "stamped", "retention.ms", "777")),
    *each_version("unknown-key", 33, range(3), set_body(TOPIC, "stamped", "no.such.key", "1")),
    *each_version("wrong-value", 33, range(3), set_body(TOPIC, "stamped", "retention.ms", "x")),
    *each_version("unknown-topic", 33, range(3), set_body(TOPIC, "nowhere", "retention.ms", "5")),
    *each_version("validate-only", 33, range(3), set_body(TOPIC, "stamped", "retention.ms", "9", validate_only=True)),
    *each_version("set", 44, range(2), set_body(TOPIC, "small", "retention.ms", "555")),
    *each_version("append-to-no-list", 44, range(2), set_body(TOPIC, "small", "retention.ms", "5", operation=2)),
    *each_version("append", 44, range(2), set_body(TOPIC, "small", "cleanup.policy", "compact", operation=2)),
    *each_version("subtract", 44, range(2), set_body(TOPIC, "small", "cleanup.policy", "compact", operation=3)),
    *each_version("delete", 44, range(2), set_body(TOPIC, "small", "retention.ms", None, operation=1)),
    *each_version("wrong-operation", 44, range(2), set_body(TOPIC, "small", "retention.ms", "5", operation=9)),
    *each_version("null-value", 44, range(2), set_body(TOPIC, "small", "retention.ms", None)),
    *each_version("read-only-broker-key", 44, range(2), set_body(BROKER, "1", "broker.id", "5")),
    *each_version("broker-key", 44, range(2), set_body(BROKER, "1", "log.cleaner.threads", "2")),
    *each_version("unknown-broker", 44, range(2), set_body(BROKER, "9", "log.cleaner.threads", "2")),
    *each_version("unknown-key-of-unknown-topic", 44, range(2), set_body(TOPIC, "nowhere", "no.such", "2")),
    Variant("after", 32, 4, describe(TOPIC, "small", KEYS)),
    *each_version("wrong-type", 74, range(1, 2), {"resource_types": [99]}),
]  # fmt: skip

QUOTA = [{"entity_type": "client-id", "entity_name": "app"}]


def quota_body(
    entity: list[Body], key: str, value: float, *, remove: bool = False, validate_only: bool = False
) -> Body:
    return {
        "entries": [{"entity": entity, "ops": [{"key": key, "value": value, "remove": remove}]}],
        "validate_only": validate_only,
    }


CLUSTER = [
    *each_version("brokers", 60, range(3), {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False}),
    *each_version("operations", 60, range(3), {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}),
    *each_version("controllers", 60, range(1, 3), {"include_cluster_authorized_operations": False, "endpoint_type": 2, "include_fenced_brokers": False}),
    *each_version("neither", 60, range(1, 3), {"include_cluster_authorized_operations": False, "endpoint_type": 7, "include_fenced_brokers": False}),
    Variant("one", 75, 0, {"topics": [{"name": "orders"}], "response_partition_limit": 2000, "cursor": None}),
    Variant("unknown", 75, 0, {"topics": [{"name": "nowhere"}, {"name": "no/good"}], "response_partition_limit": 2000, "cursor": None}),
    Variant("paged", 75, 0, {"topics": [{"name": "orders"}, {"name": "small"}], "response_partition_limit": 2, "cursor": None}),
    Variant("next-page", 75, 0, {"topics": [{"name": "orders"}, {"name": "small"}], "response_partition_limit": 2, "cursor": {"topic_name": "orders", "partition_index": 2}}),
    Variant("negative-cursor", 75, 0, {"topics": [{"name": "orders"}], "response_partition_limit": 2, "cursor": {"topic_name": "orders", "partition_index": -1}}),
    *each_version("none-asked", 35, range(1, 6), {"topics": []}),
    *each_version("unknown", 35, range(1, 6), {"topics": [{"topic": "nowhere", "partitions": [0]}]}),
    *each_version("nothing-to-elect", 43, range(3), {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout": 5000}),
    *each_version("unknown", 43, range(3), {"election_type": 0, "topic_partitions": [{"topic": "nowhere", "partitions": [0]}], "timeout": 5000}),
    *each_version("unclean", 43, range(1, 3), {"election_type": 1, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout": 5000}),
    *each_version("to-itself", 45, range(2), {"timeout": 5000, "allow_replication_factor_change": True, "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}),
    *each_version("to-nobody", 45, range(2), {"timeout": 5000, "allow_replication_factor_change": True, "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1, 9]}]}]}),
    *each_version("cancel-nothing", 45, range(2), {"timeout": 5000, "allow_replication_factor_change": True, "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    *each_version("unknown", 45, range(2), {"timeout": 5000, "allow_replication_factor_change": True, "topics": [{"name": "nowhere", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}),
    Variant("all", 46, 0, {"timeout": 5000, "topics": None}),
    Variant("some", 46, 0, {"timeout": 5000, "topics": [{"name": "orders", "partition_indexes": [0]}]}),
    *each_version("set", 49, range(2), quota_body(QUOTA, "producer_byte_rate", 10_000_000.0)),
    *each_version("unknown-key", 49, range(2), quota_body(QUOTA, "no_such_rate", 1.0)),
    *each_version("negative", 49, range(2), quota_body(QUOTA, "producer_byte_rate", -1.0)),
    *each_version("unknown-entity", 49, range(2), quota_body([{"entity_type": "planet", "entity_name": "x"}], "producer_byte_rate", 1.0)),
    *each_version("no-entity", 49, range(2), quota_body([], "producer_byte_rate", 1.0)),
    *each_version("of-one", 48, range(2), {"components": [{"entity_type": "client-id", "match_type": 0, "match": "app"}], "strict": False}),
    *each_version("of-defaults", 48, range(2), {"components": [{"entity_type": "client-id", "match_type": 1, "match": None}], "strict": False}),
    *each_version("unknown-type", 48, range(2), {"components": [{"entity_type": "planet", "match_type": 2, "match": None}], "strict": False}),
    *each_version("wrong-match", 48, range(2), {"components": [{"entity_type": "user", "match_type": 9, "match": None}], "strict": False}),
    *each_version("describe", 29, range(1, 4), {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}),
    *each_version("create", 30, range(1, 4), {"creations": [{"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}]}),
    *each_version("delete", 31, range(1, 4), {"filters": [{"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}]}),
    *each_version("plain", 17, range(2), {"mechanism": "PLAIN"}),
    *each_version("no-state", 36, range(3), {"auth_bytes": b"x"}),
]  # fmt: skip

VARIANTS = [*CREATE, *DELETE, *PARTITIONS, *CONFIGS, *CLUSTER]
