"""Edge cases of topic, configuration and cluster requests: duplicate, empty, contradictory and out-of-range values."""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.admin_variants import (
    BROKER,
    GROUP,
    LOGGER,
    TOPIC,
    creation,
    describe,
    growth,
    without_configs,
)
from tests.differential.servers import Server
from tests.differential.table import Body, Variant, each_version

METRICS = 16


def named(*names: str | None, create: bool = False, operations: bool = False) -> Body:
    return {
        "topics": [{"topic_id": None, "name": name} for name in names],
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": operations,
        "include_topic_authorized_operations": operations,
    }


def _with_ids(*pairs: tuple[str | None, str | None]) -> Any:
    """(name, name of the topic whose id is sent)."""

    def make(server: Server) -> Body:
        topics = [{"name": name, "topic_id": server.known.get(of) if of else None} for name, of in pairs]
        return {**named(), "topics": topics}

    return make


METADATA = [
    Variant("doubled", 3, 12, named("orders", "orders")),
    Variant("doubled-unknown", 3, 12, named("nowhere", "nowhere")),
    Variant("a-name-among-ids", 3, 12, _with_ids((None, "orders"), ("small", None))),
    Variant("name-and-id-of-others", 3, 12, _with_ids(("orders", "small"))),
    Variant("neither-name-nor-id", 3, 10, _with_ids((None, None))),
    Variant("neither-name-nor-id", 3, 12, _with_ids((None, None))),
    *each_version("unknown-with-operations", 3, range(8, 11), named("nowhere", operations=True)),
    # Kafka answers before the topic exists, so clients retry.
    *[Variant("asked-into-being", 3, v, named(f"by-asking-{v}", create=True)) for v in (1, 5, 9, 12)],
    Variant("asked-into-being-internal", 3, 9, named("__share_group_state", create=True)),
    Variant("asked-into-being-of-the-controllers", 3, 9, named("__cluster_metadata", create=True)),
    Variant("asked-into-being-illegal", 3, 9, named("no/good", "x" * 250, create=True)),
]


def pages(names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Body:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}


TWO = ["orders", "small"]
PAGES = [
    Variant("doubled", 75, 0, pages(["orders", "orders"], 100)),
    Variant("limit-zero", 75, 0, pages(["orders"], 0)),
    Variant("limit-negative", 75, 0, pages(["orders"], -5)),
    Variant("limit-exact", 75, 0, pages(TWO, 3)),
    Variant("limit-with-unknown", 75, 0, pages(["nowhere", *TWO], 2)),
    Variant("cursor-not-asked-for", 75, 0, pages(TWO, 3, ("zzz", 0))),
    Variant("cursor-between", 75, 0, pages(TWO, 3, ("p", 0))),
    Variant("cursor-beyond", 75, 0, pages(TWO, 3, ("orders", 7))),
    Variant("cursor-nameless", 75, 0, pages(TWO, 3, ("", 0))),
    Variant("cursor-at-unknown", 75, 0, pages(["nowhere", *TWO], 2, ("nowhere", 0))),
    *each_version(
        "fenced-too",
        60,
        range(3),
        {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": True},
    ),
]


def _create(name: str, body: Body, version: int = 7) -> Variant:
    return Variant(name, 19, version, body, only=without_configs)


def _assigned(name: str, *lists: tuple[int, list[int]], **more: Any) -> Variant:
    assignments = [{"partition_index": index, "broker_ids": brokers} for index, brokers in lists]
    return _create(name, creation(f"x-{name}", partitions=-1, factor=more.get("factor", -1), assignments=assignments))


def _configured(name: str, configs: dict[str, str | None]) -> Variant:
    return _create(name, creation(f"x-{name}", configs=configs))


def _several(*bodies: Body) -> Body:
    return {**bodies[0], "topics": [topic for body in bodies for topic in body["topics"]]}


CREATE = [
    _create("none", {"topics": [], "timeout": 5000, "validate_only": False}),
    _create("good-and-bad", _several(creation("x-good"), creation("x/bad"))),
    _create("doubled-and-good", _several(creation("x-twice"), creation("x-twice"), creation("x-once"))),
    _create("nameless", creation("")),
    _create("of-the-controllers", creation("__cluster_metadata")),
    _create("no-time-at-all", creation("x-late", timeout=-1)),
    _create("defaults-too-early", creation("x-early", partitions=-1, factor=-1), 3),
    _create("factor-negative", creation("x-factor", factor=-2)),
    _create("factor-largest", creation("x-factor", factor=32767)),
    _create("validate-wrong", creation("x-validated", factor=9, validate_only=True)),
    _create("validate-there-already", creation("orders", validate_only=True)),
    _assigned("assigned-twice-to-one", (0, [1, 1])),
    _assigned("assigned-to-none", (0, [])),
    _assigned("assigned-doubled", (0, [1]), (0, [1])),
    _assigned("assigned-unevenly", (0, [1]), (1, [])),
    _assigned("assigned-negative", (-1, [1])),
    _assigned("assigned-with-factor", (0, [1]), factor=1),
    _assigned("assigned-negative-broker", (0, [-1])),
    _configured("null-config", {"retention.ms": None}),
    _configured("empty-config", {"retention.ms": ""}),
    _configured("wrong-policy", {"cleanup.policy": "shred"}),
    _configured("no-policy", {"cleanup.policy": ""}),
    _configured("no-minimum", {"min.insync.replicas": "0"}),
    _configured("tiered", {"remote.storage.enable": "true"}),
    _configured("no-such-time", {"message.timestamp.type": "SomeTime"}),
    _configured("no-such-codec", {"compression.type": "brotli"}),
    _configured("no-such-level", {"compression.gzip.level": "77"}),
    _configured("throttled-nonsense", {"leader.replication.throttled.replicas": "nonsense"}),
    _configured("throttled-all", {"leader.replication.throttled.replicas": "*"}),
]


def _deletion(*pairs: tuple[str | None, str | None], timeout: int = 5000) -> Any:
    def make(server: Server) -> Body:
        topics = [{"name": name, "topic_id": server.known.get(of) if of else None} for name, of in pairs]
        return {"topics": topics, "topic_names": [name for name, _ in pairs], "timeout": timeout}

    return make


DELETE = [
    *each_version("none", 20, (1, 5, 6), _deletion()),
    *each_version("doubled-unknown", 20, (1, 5, 6), _deletion(("nowhere", None), ("nowhere", None))),
    *each_version("illegal", 20, (1, 5, 6), _deletion(("no/good", None))),
    *each_version("nameless", 20, (1, 5, 6), _deletion(("", None))),
    *each_version("no-time-at-all", 20, (1, 6), _deletion(("nowhere", None), timeout=-1)),
    Variant("unknown-id-twice", 20, 6, {"topics": [{"name": None, "topic_id": uuid.UUID(int=9)}] * 2, "timeout": 5000}),
    Variant("name-and-id", 20, 6, _deletion(("orders", "orders"))),
    Variant("neither", 20, 6, _deletion((None, None))),
    Variant("by-name-and-by-id", 20, 6, _deletion(("orders", None), (None, "orders"))),
]


def _grow(name: str, topic: str, count: int, lists: list[list[int]] | None = None, **more: Any) -> Variant:
    assignments = None if lists is None else [{"broker_ids": brokers} for brokers in lists]
    return Variant(name, 37, 3, {**growth(topic, count, assignments, validate_only=True), **more})


GROW = [
    Variant("none", 37, 3, {"topics": [], "timeout": 5000, "validate_only": False}),
    Variant("doubled", 37, 3, {"topics": growth("orders", 9)["topics"] * 2, "timeout": 5000, "validate_only": True}),
    _grow("illegal", "no/good", 9),
    _grow("nameless", "", 9),
    _grow("negative", "orders", -1),
    _grow("assigned", "orders", 4, [[1]]),
    _grow("assigned-twice-to-one", "orders", 4, [[1, 1]]),
    _grow("assigned-to-none", "orders", 4, [[]]),
    _grow("assigned-nothing", "orders", 4, []),
    _grow("assigned-too-many", "orders", 4, [[1], [1]]),
    _grow("assigned-unevenly", "orders", 5, [[1], [1, 2]]),
    _grow("internal", "__consumer_offsets", 4),
    _grow("no-time", "orders", 4, timeout=0),
    _grow("no-time-at-all", "orders", 4, timeout=-1),
]

SET, REMOVE, APPEND, SUBTRACT = range(4)
Change = tuple[str, str | None, int]


def changes(*resources: tuple[int, str, list[Change]], validate_only: bool = True) -> Body:
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value, "config_operation": how} for key, value, how in configs],
        }
        for kind, name, configs in resources
    ]
    return {"resources": rows, "validate_only": validate_only}


def _change(name: str, kind: int, resource: str, key: str, value: str | None, how: int = SET) -> list[Variant]:
    body = changes((kind, resource, [(key, value, how)]))
    whole = [] if how != SET else [Variant(name, 33, 2, body)]
    return [*whole, Variant(name, 44, 1, body)]


_OK: list[Change] = [("retention.ms", "500000000", SET)]
_MIN = "min.insync.replicas"
CHANGES = [
    *[Variant("none", api, v, changes()) for api, v in ((33, 2), (44, 1))],
    *[Variant("no-keys", api, v, changes((TOPIC, "scratch", []))) for api, v in ((33, 2), (44, 1))],
    *[Variant("doubled-key", api, v, changes((TOPIC, "scratch", _OK * 2))) for api, v in ((33, 2), (44, 1))],
    Variant("doubled-resource", 44, 1, changes((TOPIC, "scratch", _OK), (TOPIC, "scratch", _OK))),
    Variant("one-there-one-not", 44, 1, changes((TOPIC, "scratch", _OK), (TOPIC, "nowhere", _OK))),
    Variant("one-key-wrong", 44, 1, changes((TOPIC, "scratch", [*_OK, ("segment.ms", "x", SET)]))),
    *[one for kind in (0, 1, 2, 3, 4, 16, 32, 64, 99) for one in _change(f"nameless-{kind}", kind, "", "a", "b")],
    *[one for kind in (0, 1, 3, 16, 32, 64, 99) for one in _change(f"unknown-key-{kind}", kind, "1", "a", "b")],
    *_change("illegal-name", TOPIC, "no/good", "retention.ms", "5"),
    *_change("policy-all-gone", TOPIC, "scratch", "cleanup.policy", "delete", SUBTRACT),
    *_change("policy-again", TOPIC, "scratch", "cleanup.policy", "delete", APPEND),
    *_change("policy-nonsense", TOPIC, "scratch", "cleanup.policy", "junk", APPEND),
    *_change("policy-null", TOPIC, "scratch", "cleanup.policy", None, APPEND),
    *_change("remove-with-value", TOPIC, "scratch", "cleanup.policy", "x", REMOVE),
    *_change("remove-unknown", TOPIC, "scratch", "no.such", None, REMOVE),
    *_change("minimum-above-replicas", TOPIC, "scratch", _MIN, "5"),
    *_change("minimum-for-all", BROKER, "", _MIN, "2"),
    *_change("minimum-of-one", BROKER, "1", _MIN, "2"),
    *_change("minimum-nonsense", BROKER, "", _MIN, "0"),
    *_change("minimum-gone", BROKER, "", _MIN, None, REMOVE),
    *_change("other-default", BROKER, "", "log.retention.ms", "300000"),
    *_change("listener-for-all", BROKER, "", "advertised.listeners", "PLAINTEXT://x:1"),
    *_change("fixed-for-all", BROKER, "", "num.partitions", "3"),
    *_change("unknown-of-broker", BROKER, "1", "no.such", "3"),
    *_change("unknown-for-all", BROKER, "", "no.such", "3"),
    *_change("broker-by-word", BROKER, "one", "log.cleaner.threads", "1"),
    *[
        one
        for key, values in {
            "num.io.threads": "0 3 4 16 17 x",
            "num.network.threads": "1 2 6 7",
            "log.cleaner.threads": "1 2 3",
            "background.threads": "4 5 20 21",
            "num.replica.fetchers": "2 3",
            "max.connections": "0 -1 5",
            "max.connections.per.ip": "-1 0 5",
            "max.connections.per.ip.overrides": "a 127.0.0.1:5",
            "max.connection.creation.rate": "0 1",
            "message.max.bytes": "-1 0",
            "log.retention.ms": "-2 -1 0",
            "log.segment.bytes": "5 1048576",
            "log.cleanup.policy": "junk compact",
            "compression.type": "a zstd",
        }.items()
        for value in values.split()
        for one in _change(f"{key}={value}", BROKER, "", key, value)[1:]
    ],
    *_change("session", GROUP, "gx", "consumer.session.timeout.ms", "46000"),
    *_change("session-nonsense", GROUP, "gx", "consumer.session.timeout.ms", "x"),
    *_change("session-too-short", GROUP, "gx", "consumer.session.timeout.ms", "1"),
    *_change("logger", LOGGER, "1", "root", "DEBUG"),
    *_change("logger-level", LOGGER, "1", "root", "LOUD"),
    *_change("logger-null", LOGGER, "1", "root", None),
    *_change("logger-unknown", LOGGER, "1", "no.such.logger", "INFO"),
    *_change("logger-of-another", LOGGER, "2", "root", "INFO"),
    *_change("logger-append", LOGGER, "1", "root", "INFO", APPEND),
    *_change("logger-root-removed", LOGGER, "1", "root", None, REMOVE),
]

_SUBSCRIPTION: list[Change] = [("interval.ms", "5000", SET), ("match", "client_id=a.*", SET)]
_UNSUBSCRIBED: list[Change] = [(key, None, REMOVE) for key, _, _ in _SUBSCRIPTION]


SUBSCRIPTIONS = [
    *[
        one
        for key, values in {
            "interval.ms": ("x", "99", "100", "3600001", " 500 "),
            "metrics": ("", "*", "a,,b", "org.apache.kafka.producer.,x"),
            "match": ("", "client_id", "client_id=(", "=x", "a=b", "client_id=a,client_source_port=1"),
        }.items()
        for value in values
        for one in _change(f"{key}={value}", METRICS, "s", key, value)
    ],
    Variant("subscribe", 44, 1, changes((METRICS, "s", _SUBSCRIPTION), validate_only=False)),
    Variant("subscription", 32, 4, describe(METRICS, "s", None, synonyms=True)),
    Variant("subscription-of-one-key", 32, 2, describe(METRICS, "s", ["match"])),
    Variant("no-subscription", 32, 4, describe(METRICS, "nothing", None, synonyms=True, docs=True)),
    Variant("nameless-subscription", 32, 4, describe(METRICS, "", None)),
    Variant("subscriptions", 74, 0, {}),
    *[Variant(f"of-type-{kind}", 74, 1, {"resource_types": [kind]}) for kind in (BROKER, LOGGER, METRICS, GROUP)],
    Variant("unsubscribe", 44, 1, changes((METRICS, "s", _UNSUBSCRIBED), validate_only=False)),
    Variant("no-subscriptions", 74, 0, {}),
]

DESCRIBE = [
    Variant("set-for-all", 32, 4, describe(BROKER, "", None, synonyms=True)),
    Variant("minimum", 32, 4, describe(BROKER, "1", [_MIN], synonyms=True)),
    Variant("topic-minimum", 32, 4, describe(TOPIC, "orders", [_MIN], synonyms=True)),
    Variant("nameless-group", 32, 4, describe(GROUP, "", None)),
    Variant("logger-by-word", 32, 4, describe(LOGGER, "x", None)),
    Variant("logger-nameless", 32, 4, describe(LOGGER, "", None)),
    Variant("logger-of-another", 32, 4, describe(LOGGER, "7", None)),
    Variant("no-logger", 32, 4, describe(LOGGER, "1", ["no.such.logger"])),
]


def election(kind: int, partitions: list[int], topic: str = "orders", timeout: int = 5000) -> Body:
    return {"election_type": kind, "topic_partitions": [{"topic": topic, "partitions": partitions}], "timeout": timeout}


def move(*targets: tuple[int, list[int] | None], topic: str = "orders", **more: Any) -> Body:
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in targets]
    topics = [{"name": topic, "partitions": partitions}]
    return {"timeout": 5000, "allow_replication_factor_change": True, "topics": topics, **more}


def _directories(server: Server) -> Any:
    return server.ask(35, 4, {"topics": None})["results"][0]["log_dir"]


def _move_to(path: str | None, *, suffix: str = "", topic: str = "nowhere") -> Any:
    topics = [{"name": "orders", "partitions": [0, 77]}, {"name": topic, "partitions": [0]}]

    def body(server: Server) -> Body:
        return {"dirs": [{"path": _directories(server) + suffix if path is None else path, "topics": topics}]}

    return body


def _move_twice(*paths: str | None) -> Any:
    """The same partition in two directories of one request; None is the present directory."""
    topics = [{"name": "orders", "partitions": [0]}]
    return lambda server: {
        "dirs": [{"path": _directories(server) if path is None else path, "topics": topics} for path in paths]
    }


def features(*updates: tuple[str, int, int]) -> Body:
    rows = [
        {"feature": name, "max_version_level": level, "allow_downgrade": kind == 2, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return {"timeout": 5000, "feature_updates": rows, "validate_only": True}


CLUSTER = [
    *each_version("doubled", 43, range(3), election(0, [0, 0])),
    *each_version("unknown-partitions", 43, range(3), election(0, [0, 99, -1])),
    *each_version("illegal", 43, range(3), election(0, [0], topic="no/good")),
    *each_version("no-time", 43, range(3), election(0, [0], timeout=0)),
    *each_version("no-such-type", 43, range(1, 3), election(7, [0])),
    *each_version("none", 45, range(2), move(topics=[])),
    *each_version("doubled-brokers", 45, range(2), move((0, [1, 1]))),
    *each_version("to-none", 45, range(2), move((0, []))),
    *each_version("to-a-negative", 45, range(2), move((0, [-1]))),
    *each_version("unknown-partition", 45, range(2), move((99, [1]), (0, [1]))),
    *each_version("doubled", 45, range(2), move((0, [1]), (0, [1]))),
    *each_version("no-time", 45, range(2), move((0, [1]), timeout=0)),
    Variant("factor-must-stay", 45, 1, move((0, [1, 2]), allow_replication_factor_change=False)),
    Variant("none", 46, 0, {"timeout": 5000, "topics": []}),
    Variant("unknown", 46, 0, {"timeout": 5000, "topics": [{"name": "nowhere", "partition_indexes": [0, 1]}]}),
    *[Variant(f"to-{path}", 34, v, _move_to(path)) for v in (1, 2) for path in ("/nowhere", "relative", "")],
    Variant("to-where-they-are", 34, 2, _move_to(None)),
    Variant("nowhere", 34, 2, {"dirs": []}),
    Variant("twice", 34, 2, _move_twice("/nowhere", None)),
    Variant("twice-to-nowhere", 34, 2, _move_twice(None, "/nowhere")),
    Variant("with-a-slash", 34, 2, _move_to(None, suffix="/")),
    Variant("long-name", 34, 2, _move_to(None, topic="o" * 240)),
    Variant("doubled", 35, 4, {"topics": [{"topic": "small", "partitions": [0, 0]}] * 2}),
    Variant("no-partitions", 35, 4, {"topics": [{"topic": "small", "partitions": []}]}),
    Variant("doubled", 61, 0, {"topics": [{"name": "small", "partition_indexes": [0, 0, -1]}]}),
    Variant("illegal", 61, 0, {"topics": [{"name": "no/good", "partition_indexes": [0]}]}),
    *each_version("none", 57, range(3), features()),
    *each_version("unknown", 57, range(3), features(("no.such", 1, 1))),
    *each_version("same", 57, range(3), features(("metadata.version", 30, 1))),
    *each_version("too-high", 57, range(3), features(("metadata.version", 99, 1))),
    *each_version("down", 57, range(3), features(("metadata.version", 20, 2))),
    *each_version("down-by-upgrade", 57, range(3), features(("metadata.version", 20, 1))),
    *each_version("doubled", 57, range(3), features(("transaction.version", 2, 1), ("transaction.version", 2, 1))),
    *each_version("no-such-way", 57, range(3), features(("transaction.version", 2, 9))),
    *each_version("negative", 57, range(3), features(("transaction.version", -1, 1))),
]

VARIANTS = [
    *METADATA, *PAGES, *CREATE, *DELETE, *GROW, *CHANGES, *SUBSCRIPTIONS, *DESCRIBE, *CLUSTER,
]  # fmt: skip
