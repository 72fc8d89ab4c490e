"""Rights of Produce, Fetch, ListOffsets, Metadata and the other requests for topic data."""

from __future__ import annotations

from typing import Any, Final

from tests.differential.authorization_cells import CLUSTER, Body, Case, Id
from tests.differential.data_variants import batch


def _produce(records: bytes, transactional_id: str | None = None, topic: str | Id = "orders", acks: int = 1) -> Body:
    named = {"topic_id": topic} if isinstance(topic, Id) else {"name": topic}
    data = [{**named, "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": transactional_id, "acks": acks, "timeout": 5000, "topic_data": data}


TRANSACTIONAL: Final = batch(producer_id=4711, producer_epoch=0, base_sequence=0, transactional=True)


def fetch_body(topic: str | Id, **more: Any) -> Body:
    named = {"topic_id": topic} if isinstance(topic, Id) else {"topic": topic}
    partition = {
        "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "log_start_offset": -1,
        "current_leader_epoch": -1, "last_fetched_epoch": -1,
    }  # fmt: skip
    return {
        "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0, "session_id": 0,
        "session_epoch": -1, "topics": [{**named, "partitions": [partition]}], "forgotten_topics_data": [],
        "rack_id": "", **more,
    }  # fmt: skip


def _metadata(*topics: str | Id, create: bool = False, operations: bool = False) -> Body:
    rows = [
        {"topic_id": topic, "name": None} if isinstance(topic, Id) else {"topic_id": None, "name": topic}
        for topic in topics
    ]
    return {
        "topics": rows or None,
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": operations,
        "include_topic_authorized_operations": operations,
    }


_LIST_OFFSET = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
CASES: Final = [
    Case("plain", 0, 9, _produce(batch()), ("WRITE:TOPIC:orders",)),
    Case("by-id", 0, 13, _produce(batch(), topic=Id("orders")), ("WRITE:TOPIC:orders",)),
    Case("missing-topic", 0, 9, _produce(batch(), topic="missing"), ("WRITE:TOPIC:missing",)),
    Case("internal", 0, 9, _produce(batch(), topic="__consumer_offsets"), ("WRITE:TOPIC:__consumer_offsets",)),
    # An accepted request has no answer. A denied one closes the connection.
    Case("acks-0", 0, 9, _produce(batch(), acks=0), ("WRITE:TOPIC:orders",), patience_s=0.5),
    Case("in-a-transaction", 0, 9, _produce(TRANSACTIONAL, "tx"), ("WRITE:TRANSACTIONAL_ID:tx", "WRITE:TOPIC:orders")),
    Case("id-without-transaction", 0, 9, _produce(batch(), "tx"), ("WRITE:TOPIC:orders",)),
    Case("consumer", 1, 12, fetch_body("orders"), ("READ:TOPIC:orders",)),
    Case("by-id", 1, 16, fetch_body(Id("orders")), ("READ:TOPIC:orders",)),
    Case("missing-topic", 1, 12, fetch_body("missing"), ("READ:TOPIC:missing",)),
    Case("internal", 1, 12, fetch_body("__consumer_offsets"), ("READ:TOPIC:__consumer_offsets",)),
    Case("as-replica", 1, 12, fetch_body("orders", replica_id=1), (f"CLUSTER_ACTION:{CLUSTER}",)),
    Case(
        "as-replica-by-id",
        1,
        16,
        fetch_body(Id("orders"), replica_state={"replica_id": 1, "replica_epoch": 1}),
        (f"CLUSTER_ACTION:{CLUSTER}",),
    ),
    Case(
        "latest",
        2,
        8,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [
                {"name": "orders", "partitions": [_LIST_OFFSET]},
                {"name": "missing", "partitions": [_LIST_OFFSET]},
            ],
        },
        ("DESCRIBE:TOPIC:orders",),
    ),
    Case("named", 3, 12, _metadata("orders", "hidden", "missing"), ("DESCRIBE:TOPIC:orders",)),
    Case("read-includes-describe", 3, 12, _metadata("orders"), ("READ:TOPIC:orders",)),
    Case("missing", 3, 12, _metadata("missing"), ("DESCRIBE:TOPIC:missing",)),
    Case("by-id", 3, 12, _metadata(Id("orders")), ("DESCRIBE:TOPIC:orders",)),
    Case("all", 3, 12, _metadata(), ("DESCRIBE:TOPIC:orders",)),
    Case("all-old", 3, 1, _metadata(), ("DESCRIBE:TOPIC:orders",)),
    Case("operations", 3, 10, _metadata("orders", operations=True), ("WRITE:TOPIC:orders", f"ALTER:{CLUSTER}")),
    Case(
        "records",
        21,
        2,
        {
            "timeout": 5000,
            "topics": [
                {"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]},
                {"name": "missing", "partitions": [{"partition_index": 0, "offset": 0}]},
            ],
        },
        ("DELETE:TOPIC:orders",),
    ),
    *(
        Case(
            name,
            23,
            4,
            {
                "replica_id": -1,
                "topics": [
                    {
                        "topic": "orders",
                        "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                    }
                ],
            },
            (right,),
        )
        for name, right in (("consumer", "DESCRIBE:TOPIC:orders"), ("broker", f"CLUSTER_ACTION:{CLUSTER}"))
    ),
    Case(
        "producers",
        61,
        0,
        {
            "topics": [
                {"name": "orders", "partition_indexes": [0]},
                {"name": "missing", "partition_indexes": [0]},
            ]
        },
        ("READ:TOPIC:orders",),
    ),
    Case(
        "named",
        75,
        0,
        {
            "topics": [{"name": "hidden"}, {"name": "orders"}, {"name": "missing"}],
            "response_partition_limit": 100,
            "cursor": None,
        },
        ("DESCRIBE:TOPIC:orders",),
    ),
    Case(
        "all",
        75,
        0,
        {"topics": [], "response_partition_limit": 100, "cursor": None},
        ("ALTER:TOPIC:orders",),
    ),
    # These come last, because the lists above must not contain the topics that they create.
    Case(
        "creates-by-cluster",
        3,
        12,
        _metadata("auto-{cell}", create=True),
        ("DESCRIBE:TOPIC:auto-{cell}", f"CREATE:{CLUSTER}"),
    ),
    Case(
        "creates-by-topic",
        3,
        12,
        _metadata("auto-{cell}", create=True),
        ("DESCRIBE:TOPIC:auto-{cell}", "CREATE:TOPIC:auto-{cell}"),
    ),
]
