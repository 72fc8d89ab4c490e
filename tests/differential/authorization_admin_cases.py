"""Rights of administrative requests: topics, configurations, quotas, elections, reassignments, ACLs."""

from __future__ import annotations

from typing import Any, Final

from tests.differential.authorization_cells import CLUSTER, Body, Case, Id


def _create(name: str) -> Body:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    return {"topics": [topic], "timeout": 10_000, "validate_only": False}


def _configs(kind: int, name: str) -> Body:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["no.such.key"]}
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


def _alter(kind: int, name: str, key: str, value: str, **more: Any) -> Body:
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": key, "value": value, "config_operation": 0}],
    }
    return {"resources": [resource], "validate_only": False, **more}


TOPICS: Final = [
    Case("by-cluster", 19, 7, _create("new-{cell}"), (f"CREATE:{CLUSTER}",)),
    Case("by-topic", 19, 7, _create("new-{cell}"), ("CREATE:TOPIC:new-{cell}",)),
    Case(
        "shows-configs", 19, 7, _create("new-{cell}"), ("CREATE:TOPIC:new-{cell}", "DESCRIBE_CONFIGS:TOPIC:new-{cell}")
    ),
    Case("existing", 19, 5, _create("orders"), ("CREATE:TOPIC:orders",)),
    Case("by-name", 20, 4, {"topic_names": ["doomed-{cell}"], "timeout": 10_000}, ("DELETE:TOPIC:doomed-{cell}",)),
    Case("missing", 20, 4, {"topic_names": ["missing"], "timeout": 10_000}, ("DELETE:TOPIC:missing",)),
    Case(
        "by-id",
        20,
        6,
        {"topics": [{"name": None, "topic_id": Id("doomed-{cell}")}], "timeout": 10_000},
        ("DELETE:TOPIC:doomed-{cell}",),
    ),
    *(
        Case(name, 20, 6, {"topics": [topic], "timeout": 10_000}, ("READ:TOPIC:doomed-{cell}",))
        for name, topic in (
            ("visible", {"name": "doomed-{cell}", "topic_id": None}),
            ("visible-id", {"name": None, "topic_id": Id("doomed-{cell}")}),
        )
    ),
    Case(
        "grow",
        37,
        3,
        {
            "topics": [
                {"name": "orders", "count": 1, "assignments": None},
                {"name": "missing", "count": 2, "assignments": None},
            ],
            "timeout": 10_000,
            "validate_only": False,
        },
        ("ALTER:TOPIC:orders",),
    ),
]

CONFIGS: Final = [
    Case("topic", 32, 4, _configs(2, "orders"), ("DESCRIBE_CONFIGS:TOPIC:orders",)),
    Case("missing-topic", 32, 4, _configs(2, "missing"), ("DESCRIBE_CONFIGS:TOPIC:missing",)),
    Case("altering-includes-it", 32, 4, _configs(2, "orders"), ("ALTER_CONFIGS:TOPIC:orders",)),
    Case("broker", 32, 4, _configs(4, "1"), (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("all-brokers", 32, 4, _configs(4, ""), (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("loggers", 32, 4, _configs(8, "1"), (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("client-metrics", 32, 4, _configs(16, "m"), (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("group", 32, 4, _configs(32, "grp"), ("DESCRIBE_CONFIGS:GROUP:grp",)),
    Case("topic", 33, 1, _alter(2, "orders", "retention.ms", "1000000000000"), ("ALTER_CONFIGS:TOPIC:orders",)),
    Case("missing-topic", 33, 1, _alter(2, "missing", "retention.ms", "1000000"), ("ALTER_CONFIGS:TOPIC:missing",)),
    Case("all-brokers", 33, 1, _alter(4, "", "log.cleaner.threads", "1"), (f"ALTER_CONFIGS:{CLUSTER}",)),
    Case("group", 33, 1, _alter(32, "grp", "consumer.session.timeout.ms", "45000"), ("ALTER_CONFIGS:GROUP:grp",)),
    Case("topic", 44, 1, _alter(2, "orders", "retention.ms", "1000000000000"), ("ALTER_CONFIGS:TOPIC:orders",)),
    Case("missing-topic", 44, 1, _alter(2, "missing", "retention.ms", "1000000"), ("ALTER_CONFIGS:TOPIC:missing",)),
    Case("broker", 44, 1, _alter(4, "1", "log.cleaner.threads", "1"), (f"ALTER_CONFIGS:{CLUSTER}",)),
    Case("all-brokers", 44, 1, _alter(4, "", "log.cleaner.threads", "1"), (f"ALTER_CONFIGS:{CLUSTER}",)),
    Case("other-broker", 44, 1, _alter(4, "77", "log.cleaner.threads", "1"), (f"ALTER_CONFIGS:{CLUSTER}",)),
    Case("loggers", 44, 1, _alter(8, "1", "root", "INFO", validate_only=True), (f"ALTER_CONFIGS:{CLUSTER}",)),
    Case("group", 44, 1, _alter(32, "grp", "consumer.session.timeout.ms", "45000"), ("ALTER_CONFIGS:GROUP:grp",)),
    Case("resources", 74, 1, {"resource_types": [16]}, (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("metrics", 74, 0, {}, (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case("quotas", 48, 1, {"components": [], "strict": False}, (f"DESCRIBE_CONFIGS:{CLUSTER}",)),
    Case(
        "quotas",
        49,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "nobody-at-all"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
                }
            ],
            "validate_only": True,
        },
        (f"ALTER_CONFIGS:{CLUSTER}",),
    ),
]

_FILTER: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": "no-such-resource",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_ACL: Final = {
    "resource_type": 2,
    "resource_name": "acl-{cell}",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
CLUSTER_CASES: Final = [
    Case(
        "preferred",
        43,
        2,
        {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout": 10_000},
        (f"ALTER:{CLUSTER}",),
    ),
    Case(
        "move",
        45,
        0,
        {
            "timeout": 10_000,
            "topics": [{"name": "missing", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        (f"ALTER:{CLUSTER}",),
    ),
    Case("moves", 46, 0, {"timeout": 10_000, "topics": None}, (f"DESCRIBE:{CLUSTER}",)),
    Case(
        "directory",
        34,
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": "missing", "partitions": [0]}]}]},
        (f"ALTER:{CLUSTER}",),
    ),
    Case("directories", 35, 4, {"topics": []}, (f"DESCRIBE:{CLUSTER}",)),
    Case("directories-old", 35, 1, {"topics": []}, (f"DESCRIBE:{CLUSTER}",)),
    Case(
        "features",
        57,
        1,
        {"timeout": 10_000, "feature_updates": [], "validate_only": True},
        (f"ALTER:{CLUSTER}",),
    ),
    Case("unregister", 64, 0, {"broker_id": 4711}, (f"ALTER:{CLUSTER}",)),
    Case(
        "operations",
        60,
        1,
        {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        (f"DESCRIBE:{CLUSTER}", f"CREATE:{CLUSTER}"),
    ),
    Case("plain", 60, 0, {"include_cluster_authorized_operations": False}, (f"ALTER:{CLUSTER}",)),
    Case("acls", 29, 3, _FILTER, (f"DESCRIBE:{CLUSTER}",)),
    Case(
        "acls",
        30,
        3,
        {"creations": [_ACL]},
        (f"ALTER:{CLUSTER}",),
    ),
    Case("acls", 31, 3, {"filters": [_FILTER]}, (f"ALTER:{CLUSTER}",)),
    Case("users", 50, 0, {"users": [{"name": "no-such-user"}]}, (f"DESCRIBE:{CLUSTER}",)),
    Case(
        "users",
        51,
        0,
        {"deletions": [{"name": "no-such-user", "mechanism": 1}], "upsertions": []},
        (f"ALTER:{CLUSTER}",),
    ),
]

CASES: Final = [*TOPICS, *CONFIGS, *CLUSTER_CASES]
