"""Fixtures of random share-group histories: the content of their topics, and the form of their requests."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

from headrace.records.builder import Record, build_batch
from tests.differential.histories import Side, Step
from tests.support.clock import PATIENCE_S, Stopwatch, wait_for
from tests.support.group_requests import SHARE_ACK, SHARE_BEAT, SHARE_FETCH

PRODUCE, ALTER_CONFIGS, GROUP = 0, 44, 32
TOPIC, OTHER = "q", "t"
BATCHES = {
    (TOPIC, 0): (3, 1, 5, 2, 4, 1, 1, 6, 2, 3, 10, 1, 2, 40, 7, 30, 12, 1, 25, 9),
    (OTHER, 0): (2, 8, 1, 1, 5),
    (OTHER, 1): (6, 1, 3),
}
RECORDS = sum(BATCHES[TOPIC, 0])
Partition = tuple[str, int]
MEMBERS = tuple(str(uuid.UUID(int=number)) for number in (1, 2, 3))
RELEASE = 2
# The smallest limit that a group may set. There are more records than that.
LOCKS = 100
ALL = 1_000


def fill(side: Side) -> None:
    for (topic, partition), counts in BATCHES.items():
        for count in counts:
            now_ms = time.time_ns() // 1_000_000
            batch = build_batch([Record(None, b"x", timestamp_ms=now_ms) for _ in range(count)])
            data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
            body = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": data}
            answer = side.ask(PRODUCE, 9, body)
            assert not answer.responses[0].partition_responses[0].error_code, answer


def partitions_of(group: str) -> list[Partition]:
    return list(BATCHES) if _seed(group) % 4 == 3 else [(TOPIC, 0)]


def has_few_locks(group: str) -> bool:
    return _seed(group) % 2 == 0


def _seed(group: str) -> int:
    return int(group.split("-")[1])


def begin(side: Side, group: str) -> None:
    """The group reads from the first record, its members have the partitions, and its share partitions are loaded."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": "60000",
        "share.delivery.count.limit": ("2", "3", "5", "10")[_seed(group) // 4 % 4],
        **({"share.partition.max.record.locks": str(LOCKS)} if has_few_locks(group) else {}),
    }
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    answer = side.ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert not answer.responses[0].error_code, answer
    for member in MEMBERS:
        _join(side, group, member)
    for partition in partitions_of(group):
        _load(side, group, partition)


def _join(side: Side, group: str, member: str) -> None:
    epoch = 0

    def has_partitions() -> bool:
        nonlocal epoch
        answer = side.ask(SHARE_BEAT, 1, heartbeat(group, member, epoch))
        assert not answer.error_code, answer
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    wait_for(has_partitions, f"partitions of {member} in {group} on {side.name}")


def _load(side: Side, group: str, partition: Partition) -> None:
    """A visitor acquires records and releases them explicitly. It does not just leave, because Kafka releases the
    records of a leaving member after its answer.
    """
    visitor = {"group_id": group, "member_id": str(uuid.UUID(int=9))}

    def ask(api: int, body: dict[str, Any]) -> Any:
        answer = side.read(side.send(Step(api, 2, {**body, **visitor}, connection="visitor")), api, 2)
        assert not answer.error_code, answer
        return answer

    watch = Stopwatch()
    taken: list[Any] = []
    for epoch in itertools.count():
        topics = topics_of({partition: []}) if epoch == 0 else []
        answer = ask(SHARE_FETCH, fetch_body("", "", epoch, topics, max_wait=300, max_records=ALL))
        taken = [run for topic in answer.responses for found in topic.partitions for run in found.acquired_records]
        if taken:
            break
        assert not watch.has_run(PATIENCE_S), f"{side.name} delivers no records to {group}"
    batches = [
        {"first_offset": run.first_offset, "last_offset": run.last_offset, "acknowledge_types": [RELEASE]}
        for run in taken
    ]
    said = {"share_session_epoch": epoch + 1, "is_renew_ack": False, "topics": topics_of({partition: batches})}
    assert not ask(SHARE_ACK, said).responses[0].partitions[0].error_code
    ask(SHARE_FETCH, fetch_body("", "", -1, []))


def topics_of(batches: dict[Partition, list[Any]]) -> list[dict[str, Any]]:
    topics: dict[str, list[Any]] = {}
    for (name, partition), acknowledged in batches.items():
        each = {"partition_index": partition, "acknowledgement_batches": acknowledged}
        topics.setdefault(f"<id of {name}>", []).append(each)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


def heartbeat(group: str, member: str, epoch: int) -> dict[str, Any]:
    names = sorted({name for name, _ in partitions_of(group)}) if epoch == 0 else None
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": names,
    }


def fetch_body(group: str, member: str, epoch: int, topics: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": 20,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 10,
        "batch_size": 10,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": topics,
        "forgotten_topics_data": [],
        **more,
    }
