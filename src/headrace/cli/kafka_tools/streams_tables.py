"""Describes streams groups, and prints them as the tables of kafka-streams-groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.group_offsets import committed, ends
from headrace.cli.kafka_tools.support.group_view import describe_streams_group
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.group_members import input_topics, task_partitions
from headrace.client.offsets import EARLIEST
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.entities import Entity

if TYPE_CHECKING:
    from headrace.wire.messages.answers.streams_group_describe import DescribedGroup, Member

# The endings of the names that Kafka Streams gives to its internal topics.
_INTERNAL: Final = re.compile(
    r".+(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic"
    r"|-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


async def described(client: ClusterClient, name: str) -> DescribedGroup:
    """Raises ToolFailed."""
    group = await describe_streams_group(client, name)
    if group.error_code == ErrorCode.group_id_not_found:
        raise ToolFailed(f"Executing streams group command failed due to {group.error_message}")
    if group.error_code:
        raise ToolFailed(f"Executing streams group command failed due to {answer_error(group)}")
    return group


def source_topics(group: DescribedGroup) -> set[str]:
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {str(topic) for each in subtopologies for topic in each.source_topics}


def internal_topics(group: DescribedGroup) -> tuple[list[str], list[str]]:
    """The internal topics with the name of their application, and those without it: they may belong to others."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    sources = source_topics(group)
    found = dict.fromkeys(
        str(topic.name)
        for each in subtopologies
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        if str(topic.name) not in sources
    )
    own = [t for t in found if t.startswith(f"{group.group_id}-") and _INTERNAL.fullmatch(t)]
    return own, [topic for topic in found if topic not in own]


def state_table(group: DescribedGroup, client: ClusterClient, node: int, *, verbose: bool) -> str:
    where = client.metadata.nodes[node]
    heading: list[object] = ["GROUP", "COORDINATOR (ID)", "STATE"]
    row: list[object] = [str(group.group_id), f"{where.host}:{where.port} ({where.id})", str(group.group_state)]
    least = [15, 25, 25]
    if verbose:
        heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [int(group.group_epoch), int(group.assignment_epoch)]
        least += [15, 25]
    rows = [[*heading, "#MEMBERS"], [*row, len(group.members)]]
    return columns(rows, fitted(rows, [*least, 0]))


def members_table(group: DescribedGroup, *, verbose: bool) -> str:
    heading: list[object] = ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    least = [15, 15, 15, 15, 0]
    if verbose:
        heading[1:1] = ["TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH"]
        heading[4:4] = ["MEMBER-PROTOCOL", "MEMBER-EPOCH"]
        least[1:1] = [25, 14]  # Kafka prints no space after this column of 15
        least[4:4] = [15, 15]
    rows = [heading]
    for member in group.members:
        row: list[object] = [
            str(group.group_id), str(member.member_id), str(member.process_id), str(member.client_id),
            _tasks_text(member, verbose=verbose),
        ]  # fmt: skip
        if verbose:
            epoch = -1 if group.topology is None else int(group.topology.epoch)
            row[1:1] = [int(group.assignment_epoch), epoch]
            row[4:4] = ["classic" if member.is_classic else "streams", int(member.member_epoch)]
        rows.append(row)
    return columns(rows, fitted(rows, least))


def _tasks_text(member: Member, *, verbose: bool) -> str:
    shown = [("", member.assignment)]
    if verbose:
        shown.append(("TARGET-", member.target_assignment))
    return "".join(
        _kind_text(f"{prefix}{kind}", tasks)
        for prefix, assignment in shown
        for kind, tasks in (
            ("ACTIVE", assignment.active_tasks),
            ("STANDBY", assignment.standby_tasks),
            ("WARMUP", assignment.warmup_tasks),
        )
    )


def _kind_text(kind: str, tasks: Iterable[Entity]) -> str:
    listed = [f"{task.subtopology_id}:[{','.join(str(int(p)) for p in task.partitions)}]; " for task in tasks]
    return f"{kind}: {''.join(listed)}" if listed else ""


async def offsets_table(group: DescribedGroup, client: ClusterClient, *, verbose: bool) -> str:
    """The lag of the input topics of active tasks. Without a committed offset all records count."""
    name = str(group.group_id)
    topics = {topic for names in input_topics(group).values() for topic in names}
    known = await client.leaders(sorted(topics))
    partitions = sorted(
        {p for member in group.members for p in task_partitions(group, member.assignment.active_tasks) if p in known}
    )
    positions = await committed(client, name)
    first, last = await ends(client, partitions, EARLIEST), await ends(client, partitions)
    heading: list[object] = ["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"]
    least = [15, 15, 10, 0]
    if verbose:
        heading[3:3] = ["CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"]
        least = [15, 15, 10, 15, 15, 15, 15]
    rows = [heading]
    for partition in partitions:
        begin, end, position = first[partition], last[partition], positions.get(partition)
        if isinstance(begin, Fault):
            raise begin
        if isinstance(end, Fault):
            raise end
        row: list[object] = [name, partition.topic, partition.partition]
        if verbose:
            epoch = None if position is None or position.leader_epoch < 0 else position.leader_epoch
            row += ["-" if position is None else position.offset, "-" if epoch is None else epoch, end.offset]
        rows.append([*row, end.offset - (begin.offset if position is None else position.offset)])
    return columns(rows, fitted(rows, least), pad_last=verbose)
