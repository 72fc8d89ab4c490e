"""The rebalances of a group, from the records that its coordinator wrote to `__consumer_offsets`.

The topic is compacted and holds the commits of all groups of a partition between the generations. So the page reads the
newest records, and shows as many rebalances as they have. The formats are Kafka's, so Apache Kafka works as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.client.group_members import GroupMember, classic_assignment
from headrace.console.cluster.cluster import Cluster
from headrace.console.core.rebalances import Generation, Member, Rebalance, rebalances
from headrace.console.records import reading
from headrace.coordinators.codec import classic_groups, consumer_groups, share_groups, streams_groups
from headrace.coordinators.codec.primitives import Reader, UnreadableRecord, key_type, key_words
from headrace.coordinators.codec.rebalance_causes import RebalanceCause, causes_in
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition, coordinator_partition
from headrace.records.builder import Record

READ: Final = 5_000
SHOWN: Final = 50
_CLASSIC: Final = 2
# A group with epochs is created with epoch 1; its first member raises it.
_FIRST_EPOCH: Final = 2
_EPOCHS: Final = {
    consumer_groups.GROUP_METADATA: lambda value: consumer_groups.read_group_metadata_value(value)[0],
    share_groups.GROUP_METADATA: lambda value: share_groups.read_group_metadata_value(value)[0],
    streams_groups.GROUP_METADATA: lambda value: streams_groups.read_group_metadata_value(value).epoch,
}
_MEMBERS: Final = (consumer_groups.MEMBER_METADATA, share_groups.MEMBER_METADATA, streams_groups.MEMBER_METADATA)


@dataclass(frozen=True, slots=True)
class RebalanceHistory:
    """`problem` is set if the records cannot be read."""

    rebalances: tuple[Rebalance, ...]
    problem: str = ""


async def history(cluster: Cluster, group_id: str, members: Sequence[GroupMember]) -> RebalanceHistory:
    """`members`: the members of the group now."""
    topic = (await cluster.facts()).topics.get(GROUP_METADATA_TOPIC)
    if topic is None or not topic.partitions:
        return RebalanceHistory((), f"the topic {GROUP_METADATA_TOPIC} is not visible to you")
    partition = TopicPartition(GROUP_METADATA_TOPIC, coordinator_partition(group_id, len(topic.partitions)))
    try:
        held = (await cluster.spans([topic])).get(partition)
        if held is None:
            return RebalanceHistory((), f"{partition} has no leader")
        records = await asyncio.to_thread(_read, cluster, partition, held)
    except Fault as fault:
        return RebalanceHistory((), fault.message)
    known = {one.id: Member(one.client_id, one.host, one.instance_id) for one in members}
    return RebalanceHistory(tuple(rebalances(generations(records, group_id, known))[:SHOWN]))


def _read(cluster: Cluster, partition: TopicPartition, held: tuple[int, int]) -> list[Record]:
    first, end = held
    with cluster.blocking() as client:
        return list(reading.read(client, partition.topic, partition.partition, max(first, end - READ), end))


def generations(records: Iterable[Record], group_id: str, known: Mapping[str, Member]) -> list[Generation]:
    """Oldest first. Records of other groups, and those of a newer Kafka, are skipped.

    A classic group writes all members at once, the others one record for each change. So a member of now (`known`) that
    no record names was there before the first of these records.
    """
    own = [record for record in records if _is_of(record, group_id)]
    named = {key_words(record.key or b"", 2)[1] for record in own if key_type(record.key or b"") in _MEMBERS}
    members = {member_id: member for member_id, member in known.items() if member_id not in named}
    found: list[Generation] = []
    causes: list[RebalanceCause] = []  # since the last generation
    for record in own:
        causes += causes_in(record.headers)
        try:
            if _take(record, found, members, tuple(causes)):
                causes.clear()
        except (UnreadableRecord, UnicodeDecodeError):
            continue
    return found


def _is_of(record: Record, group_id: str) -> bool:
    try:
        return (
            record.key is not None
            and key_type(record.key) in (_CLASSIC, *_EPOCHS, *_MEMBERS)
            and key_words(record.key, 1)[0] == group_id
        )
    except (UnreadableRecord, UnicodeDecodeError):
        return False


def _take(
    record: Record, found: list[Generation], members: dict[str, Member], causes: tuple[RebalanceCause, ...]
) -> bool:
    """True if the record begins a generation."""
    assert record.key is not None
    kind, value = key_type(record.key), record.value
    if kind in _MEMBERS:
        member_id = key_words(record.key, 2)[1]
        if value is not None:
            members[member_id] = _member(kind, value)
        elif members.pop(member_id, None) is None and found:
            # It joined before the first of these records, and left.
            found[-1] = replace(found[-1], members={**found[-1].members, member_id: Member("", "")})
    elif value is None:
        members.clear()
    elif kind == _CLASSIC:
        found.append(replace(_classic(value, record.timestamp_ms), causes=causes))
        return True
    else:
        epoch = _EPOCHS[kind](value)
        found.append(Generation(epoch, record.timestamp_ms, dict(members), first=_FIRST_EPOCH, causes=causes))
        return True
    return False


def _member(kind: int, value: bytes) -> Member:
    if kind == share_groups.MEMBER_METADATA:
        shared = share_groups.read_member_metadata_value(value)
        return Member(shared.client_id, shared.client_host, None, frozenset(shared.topic_names))
    if kind == streams_groups.MEMBER_METADATA:
        stream = streams_groups.read_member_metadata_value(value)
        return Member(stream.client_id, stream.client_host, stream.instance_id)
    one = consumer_groups.read_member_metadata_value(value)
    regex = () if not one.topic_regex else (one.topic_regex,)
    return Member(one.client_id, one.client_host, one.instance_id, frozenset((*one.topic_names, *regex)))


def _classic(value: bytes, at_ms: int) -> Generation:
    group = classic_groups.read_group_metadata_value(value)
    is_consumer = group.protocol_type == "consumer"
    members = {
        one.member_id: Member(
            one.client_id,
            one.client_host,
            one.group_instance_id,
            _subscribed(one.subscription) if is_consumer else frozenset(),
        )
        for one in group.members
    }
    shared = sum(len(classic_assignment(one.assignment)) for one in group.members) if is_consumer else None
    return Generation(group.generation, at_ms, members, shared)


def _subscribed(subscription: bytes) -> frozenset[str]:
    """Topics of a classic consumer: after the version come the names, in every version."""
    reader = Reader(subscription)
    reader.int16()
    return frozenset(reader.string() for _ in range(max(reader.array_count(), 0)))
