"""Groups of every type: members, positions, lag, reset and deletion.

Classic, consumer and streams groups commit offsets. A share group has a start offset for each share partition instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.client.cluster_client import ClusterClient, check
from headrace.client.group_members import GroupMember, assigned_partitions, classic_assignment, task_partitions
from headrace.client.offsets import list_offsets
from headrace.console.cluster.facts import ClusterFacts, ListedGroup
from headrace.console.cluster.offsets import Span, committed_by_group, partitions_of, spans
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

SHARE = "share"


@dataclass(frozen=True, slots=True)
class Description:
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    topic: str
    partition: int
    offset: int | None
    """Committed; None if the group has committed nothing here."""
    first: int | None
    end: int | None
    lag: int | None
    member: str


async def describe(client: ClusterClient, group: ListedGroup) -> Description:
    """Raises Fault."""
    if group.type == SHARE:
        body = {"group_ids": [group.id], "include_authorized_operations": False}
        found = (await client.to_coordinator(group.id, ApiKey.SHARE_GROUP_DESCRIBE, body)).groups[0]
        check(found.error_code, found.error_message, f"group {group.id}")
        return _newer(found)
    if group.type == "consumer":
        body = {"group_ids": [group.id], "include_authorized_operations": False}
        found = (await client.to_coordinator(group.id, ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups[0]
        check(found.error_code, found.error_message, f"group {group.id}")
        return _newer(found)
    if group.type == "streams":
        body = {"group_ids": [group.id], "include_authorized_operations": False}
        found = (await client.to_coordinator(group.id, ApiKey.STREAMS_GROUP_DESCRIBE, body)).groups[0]
        check(found.error_code, found.error_message, f"group {group.id}")
        return _streams(found)
    answer = await client.to_coordinator(
        group.id, ApiKey.DESCRIBE_GROUPS, {"groups": [group.id], "include_authorized_operations": False}
    )
    found = answer.groups[0]
    check(found.error_code, getattr(found, "error_message", None), f"group {group.id}")
    members = tuple(
        GroupMember(
            str(m.member_id), m.group_instance_id, str(m.client_id), str(m.client_host).removeprefix("/"),
            classic_assignment(m.member_assignment),
        )
        for m in found.members
    )  # fmt: skip
    return Description(str(found.group_state), str(found.protocol_data), members)


def _streams(group: Entity) -> Description:
    members = tuple(
        GroupMember(
            str(m.member_id), m.instance_id, str(m.client_id), str(m.client_host).removeprefix("/"),
            task_partitions(group, m.assignment.active_tasks),
        )
        for m in group.members
    )  # fmt: skip
    return Description(str(group.group_state), "sticky", members, int(group.group_epoch))


def _newer(group: Entity) -> Description:
    members = tuple(
        GroupMember(
            str(m.member_id), getattr(m, "instance_id", None), str(m.client_id), str(m.client_host).removeprefix("/"),
            assigned_partitions(m.assignment),
        )
        for m in group.members
    )  # fmt: skip
    return Description(str(group.group_state), str(group.assignor_name), members, int(group.group_epoch))


async def positions(
    client: ClusterClient, facts: ClusterFacts, group: ListedGroup, members: Iterable[GroupMember]
) -> list[Position]:
    """Every partition of the topics that the group reads. A partition without a committed offset counts with all its
    records."""
    owners = {partition: member.client_id for member in members for partition in member.assigned}
    share_lag: dict[TopicPartition, int] = {}
    if group.type == SHARE:
        committed, share_lag = await _share_positions(client, group.id)
    else:
        committed = (await committed_by_group(client, [group])).get(group.id, {})
    topics = {partition.topic for partition in (*committed, *owners)}
    held = await spans(client, [facts.topics[name] for name in topics if name in facts.topics])
    found = []
    for partition in sorted({*held, *committed}):
        span, offset = held.get(partition), committed.get(partition)
        lag = share_lag.get(partition) if group.type == SHARE else _lag(offset, span)
        first, end = span if span is not None else (None, None)
        found.append(Position(partition.topic, partition.partition, offset, first, end, lag, owners.get(partition, "")))
    return found


def _lag(offset: int | None, span: Span | None) -> int | None:
    if span is None:
        return None
    first, end = span
    return max(0, end - max(first, first if offset is None else offset))


async def _share_positions(
    client: ClusterClient, name: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Start offsets, and the lag that the coordinator computes."""
    body = {"groups": [{"group_id": name, "topics": None}]}
    group = (await client.to_coordinator(name, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, body)).groups[0]
    check(group.error_code, group.error_message, f"group {name}")
    starts, lags = {}, {}
    for topic in group.topics:
        for part in topic.partitions:
            partition = TopicPartition(str(topic.topic_name), int(part.partition_index))
            if int(part.start_offset) >= 0:
                starts[partition] = int(part.start_offset)
            if int(getattr(part, "lag", -1)) >= 0:
                lags[partition] = int(part.lag)
    return starts, lags


async def targets(
    client: ClusterClient, facts: ClusterFacts, current: Iterable[Position], how: str, value: int
) -> dict[TopicPartition, int]:
    """New offsets: `earliest`, `latest`, `offset` N, `shift` N or `time` in milliseconds; within what the log holds.
    Raises Refused if a partition does not answer."""
    rows = [row for row in current if row.first is not None and row.end is not None]
    at_time: Mapping[TopicPartition, int] = {}
    if how == "time":
        leaders = partitions_of(facts.topics[name] for name in {row.topic for row in rows} if name in facts.topics)
        wanted = {TopicPartition(row.topic, row.partition): value for row in rows}
        answers = await list_offsets(client, wanted, leaders)
        at_time = {partition: _known(found) for partition, found in answers.items()}
    found = {}
    for row in rows:
        assert row.first is not None and row.end is not None
        partition = TopicPartition(row.topic, row.partition)
        at = row.first if row.offset is None else row.offset
        place = {
            "earliest": row.first,
            "latest": row.end,
            "offset": value,
            "shift": at + value,
            "time": at_time.get(partition, -1),
        }[how]
        # A time after the last record has no offset: the end.
        place = row.end if how == "time" and place < 0 else place
        found[partition] = min(max(place, row.first), row.end)
    return found


def _known(found: object) -> int:
    if isinstance(found, Fault):
        raise found
    return int(getattr(found, "offset", -1))


async def move(client: ClusterClient, group: ListedGroup, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits the offsets. Raises Refused."""
    topics: dict[str, list[dict[str, object]]] = {}
    share = group.type == SHARE
    for partition, offset in offsets.items():
        entry: dict[str, object] = {"partition_index": partition.partition}
        entry |= {"start_offset": offset} if share else {"committed_offset": offset, "committed_metadata": ""}
        topics.setdefault(partition.topic, []).append(entry)
    if share:
        body: dict[str, object] = {
            "group_id": group.id,
            "topics": [{"topic_name": name, "partitions": parts} for name, parts in topics.items()],
        }
        answer = await client.to_coordinator(group.id, ApiKey.ALTER_SHARE_GROUP_OFFSETS, body)
        check(answer.error_code, answer.error_message, f"group {group.id}")
        results = [(t.topic_name, part) for t in answer.responses for part in t.partitions]
    else:
        body = {
            "group_id": group.id, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        }  # fmt: skip
        answer = await client.to_coordinator(group.id, ApiKey.OFFSET_COMMIT, body, at_most=9)
        results = [(t.name, part) for t in answer.topics for part in t.partitions]
    for topic, part in results:
        if part.error_code:
            raise Refused(
                ErrorCode(part.error_code), f"{topic}-{part.partition_index}: {ErrorCode(part.error_code).name}"
            )


async def delete(client: ClusterClient, name: str) -> None:
    body = {"groups_names": [name]}
    result = (await client.to_coordinator(name, ApiKey.DELETE_GROUPS, body)).results[0]
    if result.error_code:
        code = ErrorCode(result.error_code)
        raise Refused(code, f"group {name}: {code.name.replace('_', ' ')}")
