"""Requests about coordinators, groups, offsets, producer ids and transactions."""

from __future__ import annotations

from typing import Any

from tests.differential.servers import Server
from tests.differential.table import Body, Variant, each_version

FIND = [
    *each_version("group", 10, range(4), {"key": "g", "key_type": 0}),
    *each_version("transaction", 10, range(1, 4), {"key": "t", "key_type": 1}),
    *each_version("groups", 10, range(4, 7), {"key_type": 0, "coordinator_keys": ["g", "h"]}),
    *each_version("wrong-type", 10, range(1, 4), {"key": "g", "key_type": 9}),
    *each_version("wrong-types", 10, range(4, 7), {"key_type": 9, "coordinator_keys": ["g"]}),
    *each_version("empty-key", 10, range(0, 4, 2), {"key": "", "key_type": 0}),
]


def _set_on_the_topic(answer: Any) -> Any:
    """The configs that a coordinator gives its internal topic."""
    return sorted((c["name"], c["value"]) for c in answer["results"][0]["configs"] if c["config_source"] == 1)


def configs_body(topic: str) -> Body:
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


INTERNAL_TOPICS = [
    Variant(topic.strip("_"), 32, 4, configs_body(topic), only=_set_on_the_topic)
    for topic in ("__consumer_offsets", "__transaction_state")
]


def commit_body(
    group: str, *, topic: str = "orders", offset: int = 4, generation: int = -1, member: str = "", **more: Any
) -> Any:
    def make(server: Server) -> Body:
        partition = {
            "partition_index": more.get("partition", 0),
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": more.get("metadata", "note"),
            "commit_timestamp": -1,
        }
        return {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "group_instance_id": None,
            "retention_time": more.get("retention", -1),
            "topics": [{"name": topic, "topic_id": server.known.get(topic), "partitions": [partition]}],
        }

    return make


def offset_fetch_body(group: str, topics: list[str] | None, partitions: tuple[int, ...] = (0, 1)) -> Any:
    """Both forms of the request. Each version uses its own."""

    def make(server: Server) -> Body:
        rows = None if topics is None else [
            {"name": topic, "topic_id": server.known.get(topic), "partition_indexes": list(partitions)} for topic in topics
        ]  # fmt: skip
        return {
            "group_id": group,
            "topics": rows,
            "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": rows}],
            "require_stable": False,
        }

    return make


def several_groups_body(server: Server) -> Body:
    rows = [{"name": "orders", "topic_id": server.known.get("orders"), "partition_indexes": [0]}]
    asked: tuple[Any, ...] = (
        ("simple-group", rows),
        ("simple-group", None),
        ("nobody", rows),
        ("nobody", None),
        ("simple-group", []),
    )
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics} for group, topics in asked]
    return {"groups": groups, "require_stable": True}


def stranger_body(group: str, member: str, epoch: int) -> Any:
    def make(server: Server) -> Body:
        rows = [{"name": "orders", "topic_id": server.known.get("orders"), "partition_indexes": [0]}]
        asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": rows}
        return {"groups": [asked], "require_stable": False}

    return make


def txn_commit_body(group: str, *, topic: str = "orders") -> Body:
    partition = {
        "partition_index": 0,
        "committed_offset": 4,
        "committed_leader_epoch": -1,
        "committed_metadata": "note",
    }
    return {
        "transactional_id": "never-seen",
        "group_id": group,
        "producer_id": 77,
        "producer_epoch": 0,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }


OFFSETS = [
    *each_version("simple", 8, range(2, 11), commit_body("simple-group")),
    *each_version("unknown-topic", 8, range(2, 10), commit_body("simple-group", topic="nowhere")),
    *each_version("unknown-partition", 8, range(2, 11, 2), commit_body("simple-group", partition=9)),
    *each_version("no-group-id", 8, range(2, 11, 4), commit_body("")),
    *each_version("unknown-member", 8, range(2, 11, 3), commit_body("simple-group", generation=5, member="who")),
    *each_version("long-metadata", 8, range(2, 11, 4), commit_body("simple-group", metadata="x" * 5000)),
    *each_version("committed", 9, range(1, 11), offset_fetch_body("simple-group", ["orders"])),
    *each_version("everything", 9, range(2, 10), offset_fetch_body("simple-group", None)),
    *each_version("unknown-group", 9, range(1, 11, 2), offset_fetch_body("nobody", ["orders"])),
    *each_version("unknown-topic", 9, range(1, 10, 3), offset_fetch_body("simple-group", ["nowhere"])),
    *each_version("longest-metadata", 8, range(2, 11, 4), commit_body("simple-group", metadata="x" * 4096)),
    *each_version("no-metadata", 8, range(2, 11, 4), commit_body("simple-group", metadata=None)),
    *each_version("kept-for-ever", 8, range(2, 5), commit_body("kept-group", retention=(1 << 63) - 1)),
    *each_version("kept-not-at-all", 8, range(2, 5), commit_body("kept-group", retention=-2)),
    *each_version("unknown-id", 8, range(10, 11), commit_body("simple-group", topic="nowhere")),
    Variant("everything", 9, 10, offset_fetch_body("simple-group", None)),
    *each_version("twice", 9, range(1, 11, 3), offset_fetch_body("simple-group", ["orders", "orders"], (0, 0, 9, -1))),
    *each_version("no-topics", 9, range(1, 11, 3), offset_fetch_body("simple-group", [])),
    *each_version("no-group-id", 9, range(1, 11, 3), offset_fetch_body("", ["orders"])),
    *each_version("several-groups", 9, range(8, 11), several_groups_body),
    *each_version("no-group-at-all", 9, range(8, 11), {"groups": [], "require_stable": True}),
    *each_version("stranger", 9, range(9, 11), stranger_body("simple-group", "who", 3)),
    *each_version("stranger-nowhere", 9, range(9, 11), stranger_body("nobody", "who", 3)),
    *each_version("no-group-id", 28, range(6), txn_commit_body("")),
    *each_version("unknown-topic", 28, range(6), txn_commit_body("simple-group", topic="nowhere")),
    *each_version("unknown-producer", 28, range(3, 6), txn_commit_body("simple-group")),
    Variant("one", 47, 0, {"group_id": "simple-group", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 2}]}]}),
    Variant("unknown-group", 47, 0, {"group_id": "nobody", "topics": []}),
]  # fmt: skip


def join_body(
    group: str, *, session: int = 10_000, member: str = "", protocol_type: str = "consumer", protocols: bool = True
) -> Body:
    return {
        "group_id": group,
        "session_timeout": session,
        "rebalance_timeout": 5_000,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": protocol_type,
        "protocols": [{"name": "range", "metadata": b"abc"}] if protocols else [],
        "reason": None,
    }


def _joined(answer: Any) -> Any:
    """Member ids are random. The leader is the member that joined."""
    for name in ("leader",):
        if answer.get(name):
            answer[name] = "member"
    return answer


MEMBERS = [
    *[Variant(f"alone-{v}", 11, v, join_body(f"joined-{v}"), only=_joined) for v in range(10)],
    *each_version("short-session", 11, range(0, 10, 3), join_body("j", session=10)),
    *each_version("no-group-id", 11, range(0, 10, 3), join_body("")),
    *each_version("unknown-member", 11, range(0, 10, 3), join_body("j2", member="who")),
    *each_version("no-protocols", 11, range(0, 10, 3), join_body("j3", protocols=False)),
    *each_version("unknown-group", 12, range(5), {"group_id": "nobody", "generation_id": 1, "member_id": "m", "group_instance_id": None}),
    *each_version("unknown-group", 14, range(6), {"group_id": "nobody", "generation_id": 1, "member_id": "m", "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "range", "assignments": []}),
    *each_version("unknown-group", 13, range(6), {"group_id": "nobody", "member_id": "m", "members": [{"member_id": "m", "group_instance_id": None, "reason": None}]}),
    *each_version("unknown-groups", 15, range(7), {"groups": ["nobody"], "include_authorized_operations": False}),
    *each_version("simple-group", 15, range(7), {"groups": ["simple-group"], "include_authorized_operations": False}),
    *each_version("operations", 15, range(3, 7), {"groups": ["simple-group"], "include_authorized_operations": True}),
    *each_version("unknown", 42, range(3), {"groups_names": ["nobody"]}),
    Variant("unknown", 69, 0, {"group_ids": ["nobody"], "include_authorized_operations": False}),
    Variant("classic", 69, 1, {"group_ids": ["simple-group"], "include_authorized_operations": False}),
]  # fmt: skip


def init_body(transactional_id: str | None, *, timeout: int = 60_000, producer_id: int = -1, epoch: int = -1) -> Body:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": timeout,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def end_body(transactional_id: str, producer_id: int = 77, epoch: int = 0) -> Body:
    return {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "committed": True,
    }


TRANSACTIONS = [
    *each_version("idempotent", 22, range(6), init_body(None)),
    *[Variant(f"transactional-{v}", 22, v, init_body(f"tx-{v}")) for v in range(6)],
    *each_version("empty-id", 22, range(0, 6, 2), init_body("")),
    *each_version("timeout-too-long", 22, range(6), init_body("tx-long", timeout=10_000_000)),
    *each_version("timeout-zero", 22, range(0, 6, 2), init_body("tx-zero", timeout=0)),
    *each_version("id-without-epoch", 22, range(3, 6), init_body("tx-half", producer_id=5)),
    *each_version("unknown-id", 26, range(6), end_body("never-seen")),
    *each_version("wrong-producer", 26, range(6), end_body("tx-0")),
    *each_version("unknown-id", 25, range(5), {"transactional_id": "never-seen", "producer_id": 7, "producer_epoch": 0, "group_id": "g"}),
    *each_version("unknown-id", 24, range(4), {"v3_and_below_transactional_id": "never-seen", "v3_and_below_producer_id": 7, "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}),
    *each_version("unknown-topic", 24, range(4), {"v3_and_below_transactional_id": "tx-0", "v3_and_below_producer_id": 7, "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "nowhere", "partitions": [0]}, {"name": "orders", "partitions": [0]}]}),
    Variant("unknown", 65, 0, {"transactional_ids": ["never-seen"]}, only=lambda a: [{**t, "transaction_timeout": 0} for t in a["transaction_states"]]),
    *each_version("complete-abort", 66, range(3), {"state_filters": ["CompleteAbort"], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None}),
    *each_version("unknown-state", 66, range(3), {"state_filters": ["Dancing"], "producer_id_filters": [12345], "duration_filter": -1, "transactional_id_pattern": None}),
    Variant("broken-pattern", 66, 2, {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": "(("}),
]  # fmt: skip

VARIANTS = [*FIND, *INTERNAL_TOPICS, *OFFSETS, *MEMBERS, *TRANSACTIONS]
