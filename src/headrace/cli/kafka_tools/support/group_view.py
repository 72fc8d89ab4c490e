"""Lists groups from all brokers, describes them through their coordinators, and prints them as tables."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.group_offsets import Position, committed, ends
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.group_members import assigned_partitions, classic_assignment, task_partitions
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.consumer_group_describe import DescribedGroup as ConsumerGroup
    from headrace.wire.messages.answers.share_group_describe import DescribedGroup as ShareGroup
    from headrace.wire.messages.answers.streams_group_describe import DescribedGroup as StreamsGroup

STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    type: str  # Classic, Consumer, Share, Streams
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None

    @property
    def address(self) -> str:
        """`host` without the slash that Kafka puts before an address whose name was not looked up."""
        return self.host.removeprefix("/")


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    state: str
    assignor: str
    coordinator: int
    members: list[Member] = field(default_factory=list)
    epoch: int | None = None
    target_epoch: int | None = None


async def listed(client: ClusterClient) -> list[Listed]:
    """All groups of the cluster. Each broker lists the groups that it coordinates."""
    if not client.metadata.nodes:
        await client.refresh(())
    body: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
    answers = await asyncio.gather(
        *(client.request(ApiKey.LIST_GROUPS, body, node=node) for node in client.metadata.nodes)
    )
    found = []
    for answer in answers:
        if answer.error_code:
            raise ToolFailed(answer_error(answer))
        for group in answer.groups:
            kind = str(getattr(group, "group_type", "classic") or "classic").capitalize()
            found.append(
                Listed(str(group.group_id), kind, str(getattr(group, "group_state", "")), str(group.protocol_type))
            )
    return found


async def described(client: ClusterClient, name: str, *, missing_is_empty: bool = False) -> Group:
    """Describes the group through its coordinator, with the newer API first (KIP-848), then the classic one."""
    node = await client.coordinator(name)
    connection = await client.connection(node)
    if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.versions:
        answer = await connection.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": [name], "include_authorized_operations": False}
        )
        group = answer.groups[0]
        if not group.error_code:
            return _consumer_group(group, node)
    answer = await connection.request(
        ApiKey.DESCRIBE_GROUPS, {"groups": [name], "include_authorized_operations": False}
    )
    group = answer.groups[0]
    code = ErrorCode(group.error_code)
    gone = code is ErrorCode.group_id_not_found or (code is ErrorCode.none and str(group.group_state) == "Dead")
    if gone and missing_is_empty:
        return Group(name, "Dead", "", node)
    if gone:
        raise ToolFailed(f"Executing consumer group command failed due to Consumer group {name} not found.")
    if code is not ErrorCode.none:
        raise ToolFailed(f"group {name}: {answer_error(group)}")
    members = [
        Member(
            str(m.member_id),
            m.group_instance_id,
            str(m.client_id),
            str(m.client_host),
            classic_assignment(m.member_assignment),
        )
        for m in group.members
    ]
    return Group(name, str(group.group_state), str(group.protocol_data), node, members)


def _consumer_group(group: ConsumerGroup, node: int) -> Group:
    members = [
        Member(
            str(m.member_id), m.instance_id, str(m.client_id), str(m.client_host),
            assigned_partitions(m.assignment), assigned_partitions(m.target_assignment), int(m.member_epoch),
        )
        for m in group.members
    ]  # fmt: skip
    return _with_epochs(group, node, members)


def share_group(group: ShareGroup, node: int) -> Group:
    """Converts an answer of ShareGroupDescribe. Members of a share group have no instance id and no target
    assignment."""
    members = [
        Member(
            str(m.member_id), None, str(m.client_id), str(m.client_host), assigned_partitions(m.assignment),
            epoch=int(m.member_epoch),
        )
        for m in group.members
    ]  # fmt: skip
    return _with_epochs(group, node, members)


def streams_group(group: StreamsGroup, node: int) -> Group:
    """Converts an answer of StreamsGroupDescribe. The partitions are those of active tasks."""
    members = [
        Member(
            str(m.member_id), m.instance_id, str(m.client_id), str(m.client_host),
            task_partitions(group, m.assignment.active_tasks),
            task_partitions(group, m.target_assignment.active_tasks), int(m.member_epoch),
        )
        for m in group.members
    ]  # fmt: skip
    return Group(
        str(group.group_id), str(group.group_state), "sticky", node, members,
        int(group.group_epoch), int(group.assignment_epoch),
    )  # fmt: skip


async def describe_streams_group(client: ClusterClient, name: str) -> StreamsGroup:
    """The answer for this group, even if it is an error."""
    body = {"group_ids": [name], "include_authorized_operations": False}
    found: StreamsGroup = (await client.to_coordinator(name, ApiKey.STREAMS_GROUP_DESCRIBE, body)).groups[0]
    return found


def _with_epochs(group: ConsumerGroup | ShareGroup, node: int, members: list[Member]) -> Group:
    return Group(
        str(group.group_id), str(group.group_state), str(group.assignor_name), node, members,
        int(group.group_epoch), int(group.assignment_epoch),
    )  # fmt: skip


async def offsets_table(group: Group, client: ClusterClient, *, verbose: bool) -> str:
    positions: dict[TopicPartition, Position] = await committed(client, group.id)
    owners = {partition: member for member in group.members for partition in member.assigned}
    partitions = sorted({*positions, *owners})
    ends_found = await ends(client, partitions)
    heading: list[object] = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    least = [15, 15, 10, 15, 15, 15, 15, 15, 15]
    if verbose:
        heading.insert(3, "LEADER-EPOCH")
        least.insert(3, 15)
    rows: list[list[object]] = []
    for partition in partitions:
        position, owner, end = positions.get(partition), owners.get(partition), ends_found.get(partition)
        last = end.offset if end is not None and not isinstance(end, Fault) else None
        lag = last - position.offset if position is not None and last is not None else None
        epoch = position.leader_epoch if position is not None and position.leader_epoch >= 0 else None
        rows.append(
            [
                group.id, partition.topic, partition.partition, *([_or_dash(epoch)] if verbose else []),
                _or_dash(position.offset if position else None), _or_dash(last), _or_dash(lag),
                _or_dash(owner.id if owner else None), _or_dash(owner.host if owner else None),
                _or_dash(owner.client_id if owner else None),
            ]
        )  # fmt: skip
    idle = [member for member in group.members if not member.assigned]
    for member in idle:
        rows.append([group.id, *[_NOTHING] * (len(heading) - 4), member.id, member.host, member.client_id])
    rows.sort(key=lambda row: (str(row[1]), row[2] if isinstance(row[2], int) else -1))
    return "\n" + columns([heading, *rows], fitted([heading, *rows], least))


def members_table(group: Group, *, verbose: bool) -> str:
    heading = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    least = [15, 15, 15, 15, 15]
    static = any(member.instance_id for member in group.members)
    if static:
        heading.insert(2, "GROUP-INSTANCE-ID")
        least.insert(2, 17)
    if verbose:
        heading += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [15, 20, 15, 20]
    rows: list[list[object]] = [list(heading)]
    for member in group.members:
        row: list[object] = [group.id, member.id, member.host, member.client_id, len(member.assigned)]
        if static:
            row.insert(2, member.instance_id or _NOTHING)
        if verbose:
            target = _NOTHING if member.target is None else _assignment_text(member.target)
            row += [_or_dash(member.epoch), _assignment_text(member.assigned), _or_dash(group.target_epoch), target]
        rows.append(row)
    return "\n" + columns(rows, fitted(rows, least), pad_last=True)


def _assignment_text(partitions: tuple[TopicPartition, ...]) -> str:
    topics: dict[str, list[str]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ", ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or _NOTHING


def state_table(group: Group, client: ClusterClient, *, verbose: bool) -> str:
    node = client.metadata.nodes[group.coordinator]
    where = f"{node.host}:{node.port}  ({node.id})"
    heading: list[object] = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row: list[object] = [group.id, where, group.assignor or _NOTHING, group.state]
    least = [15, 25, 20, 20]
    if verbose:
        heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [_or_dash(group.epoch), _or_dash(group.target_epoch)]
        least += [20, 25]
    heading.append("#MEMBERS")
    row.append(len(group.members))
    least.append(8)
    return "\n" + columns([heading, row], fitted([heading, row], least))


def _or_dash(value: object | None) -> object:
    return _NOTHING if value is None else value
