"""Rights of groups, share groups, committed offsets and transactions."""

from __future__ import annotations

from typing import Any, Final

from tests.differential.authorization_cells import CLUSTER, Body, Case, Id
from tests.differential.servers import Server
from tests.support.clock import wait_for

_MEMBER: Final = {"member_id": "m", "group_instance_id": None}


def _commit(topic: str | Id = "orders", group: str = "grp") -> Body:
    named = {"topic_id": topic} if isinstance(topic, Id) else {"name": topic}
    partition = {
        "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "",
    }  # fmt: skip
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{**named, "partitions": [partition]}, *([] if isinstance(topic, Id) else [_missing(partition)])],
    }


def _missing(partition: dict[str, Any]) -> dict[str, Any]:
    return {"name": "missing", "partitions": [partition]}


def _offsets(topics: list[str] | list[Id] | None, group: str = "readers") -> Body:
    rows = None
    if topics is not None:
        rows = [{**({"topic_id": t} if isinstance(t, Id) else {"name": t}), "partition_indexes": [0]} for t in topics]
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": rows}
    return {"group_id": group, "topics": rows, "groups": [asked], "require_stable": False}


def _transactional_commit(**more: Any) -> Body:
    partition = {
        "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "",
    }  # fmt: skip
    return {
        "transactional_id": "tx", "group_id": "grp", "producer_id": 1, "producer_epoch": 0, "generation_id": -1,
        "member_id": "", "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [partition]}, _missing(partition)],
        **more,
    }  # fmt: skip


def _heartbeat(group: str, topics: list[str] | None, **more: Any) -> Body:
    return {
        "group_id": group, "member_id": "member-0123456789abcde", "member_epoch": 0, "instance_id": None,
        "rack_id": None, "rebalance_timeout": 60_000, "subscribed_topic_names": topics, "server_assignor": None,
        "topic_partitions": [], "subscribed_topic_regex": None,
        **more,
    }  # fmt: skip


def _share_fetch(epoch: int = 0) -> Body:
    return {
        "group_id": "shared", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "share_session_epoch": epoch, "max_wait": 0,
        "min_bytes": 0, "max_bytes": 1000, "max_records": 10, "batch_size": 10,
        "topics": [{"topic_id": Id("orders"), "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}],
        "forgotten_topics_data": [], "share_acquire_mode": 0, "is_renew_ack": False,
    }  # fmt: skip


def _join(server: Server, api_key: int, body: Body) -> None:
    """Sends heartbeats until the member has its partition."""
    body = {**body, "member_epoch": 0}

    def has_partition() -> bool:
        answer = server.ask_once(api_key, 1, body)
        assert not answer["error_code"], answer
        body["member_epoch"] = answer["member_epoch"]
        return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])

    wait_for(has_partition, f"a partition for the member of {body['group_id']}", poll=0.05)


def join_consumer_group(server: Server) -> None:
    _join(server, 68, _heartbeat("modern", ["orders"], member_id="AAAAAAAAAAAAAAAAAAAAAg"))


def join_share_group(server: Server, group: str = "shared") -> None:
    _join(server, 76, _share_heartbeat(group))


def leave_share_group(server: Server) -> None:
    """The group `idle` has the state of a partition and no members."""
    join_share_group(server, "idle")
    server.ask_once(76, 1, {**_share_heartbeat("idle"), "member_epoch": -1})


def _share_heartbeat(group: str) -> Body:
    return {
        "group_id": group,
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": ["orders"],
    }


def _streams_heartbeat(group: str, *topics: str, internal: str = "", **more: Any) -> Body:
    changelog = {"name": internal, "partitions": 0, "replication_factor": 0, "topic_configs": []}
    subtopology = {
        "subtopology_id": "0", "source_topics": list(topics), "source_topic_regex": [],
        "state_changelog_topics": [changelog] if internal else [], "repartition_sink_topics": [],
        "repartition_source_topics": [], "copartition_groups": [],
    }  # fmt: skip
    return {
        "group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "member_epoch": 0, "endpoint_information_epoch": -1,
        "instance_id": None, "rack_id": None, "rebalance_timeout": 10_000,
        "topology": {"epoch": 0, "subtopologies": [subtopology]}, "active_tasks": [], "standby_tasks": [],
        "warmup_tasks": [], "process_id": "p", "user_endpoint": None, "client_tags": [], "task_offsets": None,
        "task_end_offsets": None, "shutdown_application": False, **more,
    }  # fmt: skip


def join_streams_group(server: Server) -> None:
    answer = server.ask_once(88, 0, _streams_heartbeat("flows", "orders"))
    assert not answer["error_code"], answer


GROUPS: Final = [
    Case("group", 10, 3, {"key": "grp", "key_type": 0}, ("DESCRIBE:GROUP:grp",)),
    Case("groups", 10, 4, {"key_type": 0, "coordinator_keys": ["grp", "h"]}, ("DESCRIBE:GROUP:grp",)),
    Case("read-includes-describe", 10, 4, {"key_type": 0, "coordinator_keys": ["grp"]}, ("READ:GROUP:grp",)),
    Case("transaction", 10, 4, {"key_type": 1, "coordinator_keys": ["tx"]}, ("DESCRIBE:TRANSACTIONAL_ID:tx",)),
    Case(
        "share-partition",
        10,
        6,
        {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]},
        (f"CLUSTER_ACTION:{CLUSTER}",),
    ),
    Case(
        "join",
        11,
        5,
        {
            "group_id": "grp",
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "p", "metadata": b""}],
        },
        ("READ:GROUP:grp",),
    ),
    Case("beat", 12, 4, {"group_id": "grp", "generation_id": 1, **_MEMBER}, ("READ:GROUP:grp",)),
    Case("leave", 13, 4, {"group_id": "grp", "members": [_MEMBER]}, ("READ:GROUP:grp",)),
    Case("leave-old", 13, 1, {"group_id": "grp", "member_id": "m"}, ("READ:GROUP:grp",)),
    Case(
        "sync",
        14,
        5,
        {
            "group_id": "grp",
            "generation_id": 1,
            **_MEMBER,
            "protocol_type": "c",
            "protocol_name": "p",
            "assignments": [],
        },
        ("READ:GROUP:grp",),
    ),
    Case(
        "with-operations",
        15,
        5,
        {"groups": ["readers", "absent"], "include_authorized_operations": True},
        ("DESCRIBE:GROUP:readers",),
    ),
    Case("newest", 15, 6, {"groups": ["absent"], "include_authorized_operations": True}, ("READ:GROUP:absent",)),
    Case("by-group", 16, 4, {"states_filter": []}, ("DESCRIBE:GROUP:readers",)),
    Case("by-cluster", 16, 4, {"states_filter": []}, (f"DESCRIBE:{CLUSTER}",)),
    Case("deletion", 42, 2, {"groups_names": ["absent-{cell}", "grp"]}, ("DELETE:GROUP:absent-{cell}",)),
    Case(
        "by-names",
        68,
        0,
        _heartbeat("new-{cell}", ["orders"], member_id=""),
        ("READ:GROUP:new-{cell}", "DESCRIBE:TOPIC:orders"),
    ),
    Case(
        "two-topics",
        68,
        1,
        _heartbeat("new-{cell}", ["orders", "hidden"]),
        ("READ:GROUP:new-{cell}", "DESCRIBE:TOPIC:orders", "READ:TOPIC:hidden"),
    ),
    Case(
        "description",
        69,
        0,
        {"group_ids": ["modern", "absent"], "include_authorized_operations": True},
        ("DESCRIBE:GROUP:modern", "DESCRIBE:TOPIC:orders"),
        before=join_consumer_group,
    ),
    Case(
        "streams",
        88,
        0,
        _streams_heartbeat("new-{cell}", "orders", "hidden"),
        ("READ:GROUP:new-{cell}", "DESCRIBE:TOPIC:orders", "READ:TOPIC:hidden"),
    ),
    Case(
        "internal-topics",
        88,
        0,
        _streams_heartbeat("new-{cell}", "orders", internal="new-{cell}-changelog"),
        ("READ:GROUP:new-{cell}", "DESCRIBE:TOPIC:orders", "CREATE:TOPIC:new-{cell}-changelog"),
    ),
    Case(
        "streams-description",
        89,
        0,
        {"group_ids": ["flows", "absent"], "include_authorized_operations": True},
        ("DESCRIBE:GROUP:flows", "DESCRIBE:TOPIC:orders"),
        before=join_streams_group,
    ),
]

OFFSETS: Final = [
    Case("by-name", 8, 8, _commit(group="c-{cell}"), ("READ:GROUP:c-{cell}", "READ:TOPIC:orders")),
    Case("by-id", 8, 10, _commit(Id("orders"), group="c-{cell}"), ("READ:GROUP:c-{cell}", "READ:TOPIC:orders")),
    Case("missing", 8, 8, _commit(group="c-{cell}"), ("READ:GROUP:c-{cell}", "READ:TOPIC:missing")),
    Case("named", 9, 7, _offsets(["orders", "hidden"]), ("DESCRIBE:GROUP:readers", "DESCRIBE:TOPIC:orders")),
    Case("oldest", 9, 1, _offsets(["orders", "hidden"]), ("DESCRIBE:GROUP:readers", "DESCRIBE:TOPIC:orders")),
    Case("several", 9, 8, _offsets(["orders", "hidden"]), ("READ:GROUP:readers", "READ:TOPIC:orders")),
    Case("by-id", 9, 10, _offsets([Id("orders"), Id("hidden")]), ("DESCRIBE:GROUP:readers", "DESCRIBE:TOPIC:orders")),
    Case("all", 9, 8, _offsets(None), ("DESCRIBE:GROUP:readers", "DESCRIBE:TOPIC:orders")),
    Case("all-old", 9, 7, _offsets(None), ("DESCRIBE:GROUP:readers", "DESCRIBE:TOPIC:orders")),
    Case(
        "deletion",
        47,
        0,
        {
            "group_id": "readers",
            "topics": [
                {"name": "scratch", "partitions": [{"partition_index": 0}]},
                {"name": "missing", "partitions": [{"partition_index": 0}]},
            ],
        },
        ("DELETE:GROUP:readers", "READ:TOPIC:scratch"),
    ),
]

TRANSACTIONS: Final = [
    *(
        Case(
            name,
            22,
            4,
            {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
            (right,),
        )
        for name, right in (
            ("idempotent", f"IDEMPOTENT_WRITE:{CLUSTER}"),
            ("any-topic", "WRITE:TOPIC:orders"),
        )
    ),
    Case(
        "transactional",
        22,
        4,
        {"transactional_id": "tx", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
        ("WRITE:TRANSACTIONAL_ID:tx",),
    ),
    *(
        Case(
            name,
            24,
            3,
            {
                "v3_and_below_transactional_id": "tx",
                "v3_and_below_producer_id": 1,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": [{"name": topic, "partitions": [0]} for topic in topics],
            },
            rights,
        )
        for name, topics, rights in (
            ("one", ["orders"], ("WRITE:TRANSACTIONAL_ID:tx", "WRITE:TOPIC:orders")),
            ("two", ["orders", "hidden"], ("WRITE:TRANSACTIONAL_ID:tx", "WRITE:TOPIC:orders")),
            ("missing", ["orders", "missing"], ("WRITE:TRANSACTIONAL_ID:tx", "WRITE:TOPIC:orders")),
            ("internal", ["__consumer_offsets"], ("WRITE:TRANSACTIONAL_ID:tx", "WRITE:TOPIC:__consumer_offsets")),
        )
    ),
    Case(
        "of-brokers",
        24,
        5,
        {
            "transactions": [
                {
                    "transactional_id": "tx",
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": "orders", "partitions": [0]}],
                }
            ]
        },
        (f"CLUSTER_ACTION:{CLUSTER}",),
    ),
    Case(
        "offsets",
        25,
        3,
        {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 0, "group_id": "grp"},
        ("WRITE:TRANSACTIONAL_ID:tx", "READ:GROUP:grp"),
    ),
    Case(
        "end",
        26,
        3,
        {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 0, "committed": True},
        ("WRITE:TRANSACTIONAL_ID:tx",),
    ),
    *(
        Case(
            name,
            27,
            1,
            {
                "markers": [
                    {
                        "producer_id": 4711,
                        "producer_epoch": 0,
                        "transaction_result": False,
                        "topics": [{"name": "missing", "partition_indexes": [0]}],
                        "coordinator_epoch": 0,
                    }
                ]
            },
            (right,),
        )
        for name, right in (("of-brokers", f"CLUSTER_ACTION:{CLUSTER}"), ("of-administrators", f"ALTER:{CLUSTER}"))
    ),
    Case(
        "commit",
        28,
        3,
        _transactional_commit(),
        ("WRITE:TRANSACTIONAL_ID:tx", "READ:GROUP:grp", "READ:TOPIC:orders"),
    ),
    Case(
        "description",
        65,
        0,
        {"transactional_ids": ["tx", "other"]},
        ("DESCRIBE:TRANSACTIONAL_ID:tx",),
    ),
    Case(
        "list",
        66,
        0,
        {"state_filters": [], "producer_id_filters": []},
        ("DESCRIBE:TRANSACTIONAL_ID:tx",),
    ),
]

_SHARE_TOPICS: Final = [{"topic_name": "orders"}, {"topic_name": "missing"}]


def _state(**fields: Any) -> Body:
    partition = {"partition": 0, **fields}
    return {"group_id": "state-{cell}", "topics": [{"topic_id": Id("orders"), "partitions": [partition]}]}


SHARES: Final = [
    Case("member", 76, 1, _share_heartbeat("new-{cell}"), ("READ:GROUP:new-{cell}", "DESCRIBE:TOPIC:orders")),
    Case(
        "description",
        77,
        1,
        {"group_ids": ["shared", "absent"], "include_authorized_operations": True},
        ("DESCRIBE:GROUP:shared", "DESCRIBE:TOPIC:orders"),
        before=join_share_group,
    ),
    Case("fetch", 78, 1, _share_fetch(), ("READ:GROUP:shared", "READ:TOPIC:orders"), before=join_share_group),
    Case(
        "acknowledge",
        79,
        1,
        {
            "group_id": "shared",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "share_session_epoch": 7,
            "topics": _share_fetch()["topics"],
        },
        ("READ:GROUP:shared", "READ:TOPIC:orders"),
    ),
    Case("initialize", 83, 0, _state(state_epoch=0, start_offset=0), (f"CLUSTER_ACTION:{CLUSTER}",)),
    Case("read", 84, 0, _state(leader_epoch=0), (f"CLUSTER_ACTION:{CLUSTER}",)),
    Case(
        "write",
        85,
        0,
        _state(state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]),
        (f"CLUSTER_ACTION:{CLUSTER}",),
    ),
    Case("delete", 86, 0, _state(), (f"CLUSTER_ACTION:{CLUSTER}",)),
    Case("summary", 87, 0, _state(leader_epoch=0), (f"CLUSTER_ACTION:{CLUSTER}",)),
    Case(
        "offsets",
        90,
        0,
        {
            "groups": [
                {"group_id": "idle", "topics": [{**topic, "partitions": [0]} for topic in _SHARE_TOPICS]},
            ]
        },
        ("DESCRIBE:GROUP:idle", "DESCRIBE:TOPIC:orders"),
        before=leave_share_group,
    ),
    Case(
        "all-offsets",
        90,
        0,
        {"groups": [{"group_id": "idle", "topics": None}]},
        ("DESCRIBE:GROUP:idle", "DESCRIBE:TOPIC:orders"),
    ),
    Case(
        "alter",
        91,
        0,
        {
            "group_id": "idle",
            "topics": [{**topic, "partitions": [{"partition_index": 0, "start_offset": 0}]} for topic in _SHARE_TOPICS],
        },
        ("READ:GROUP:idle", "READ:TOPIC:orders"),
    ),
    Case(
        "delete",
        92,
        0,
        {"group_id": "idle", "topics": _SHARE_TOPICS},
        ("DELETE:GROUP:idle", "READ:TOPIC:orders"),
    ),
]

CASES: Final = [*GROUPS, *OFFSETS, *TRANSACTIONS, *SHARES]
