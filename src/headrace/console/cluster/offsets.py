"""Offsets of many partitions and many groups: one request to each broker, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.console.cluster.facts import ListedGroup, Topic
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

Span = tuple[int, int]
# Decoding an answer blocks the event loop; this many groups take some milliseconds.
_GROUPS_PER_REQUEST: Final = 500


def partitions_of(topics: Iterable[Topic]) -> dict[TopicPartition, int]:
    """Leader of each partition, -1 if there is none."""
    return {
        TopicPartition(topic.name, partition.index): -1 if partition.leader is None else partition.leader
        for topic in topics
        for partition in topic.partitions
    }


async def ends(client: ClusterClient, topics: Iterable[Topic], time: int = LATEST) -> dict[TopicPartition, int]:
    """The offset at a time; partitions whose leader does not answer are missing."""
    leaders = partitions_of(topics)
    found = await list_offsets(client, dict.fromkeys(leaders, time), leaders)
    return {partition: one.offset for partition, one in found.items() if not isinstance(one, Fault)}


async def spans(client: ClusterClient, topics: Sequence[Topic]) -> dict[TopicPartition, Span]:
    """First offset and end of each partition whose leader answers."""
    first, last = await asyncio.gather(ends(client, topics, EARLIEST), ends(client, topics, LATEST))
    return {partition: (first[partition], last[partition]) for partition in first if partition in last}


async def committed_by_group(
    client: ClusterClient, groups: Iterable[ListedGroup]
) -> dict[str, dict[TopicPartition, int]]:
    """Committed offsets of consumer groups. Groups whose coordinator does not answer are missing."""
    by_node: dict[int, list[str]] = {}
    for group in groups:
        if group.type != "share":
            by_node.setdefault(group.coordinator, []).append(group.id)
    found: dict[str, dict[TopicPartition, int]] = {}
    for node, names in by_node.items():
        for at in range(0, len(names), _GROUPS_PER_REQUEST):
            found |= await _committed(client, node, names[at : at + _GROUPS_PER_REQUEST])
            await asyncio.sleep(0)
    return found


async def _committed(client: ClusterClient, node: int, names: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    bodies = [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": None} for name in names]
    try:
        # Version 10 uses topic ids; version 8 is the first with several groups.
        answer = await client.request(
            ApiKey.OFFSET_FETCH, {"groups": bodies, "require_stable": False}, node=node, at_most=9
        )
    except Fault:
        return {}
    return {str(group.group_id): _positions(group) for group in answer.groups if not group.error_code}


def _positions(group: Entity) -> dict[TopicPartition, int]:
    return {
        TopicPartition(str(topic.name), int(p.partition_index)): int(p.committed_offset)
        for topic in group.topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def lag_of(positions: Mapping[TopicPartition, int], spans: Mapping[TopicPartition, Span]) -> int | None:
    """Records between the committed offsets and the ends. A partition of a read topic without a committed offset counts
    with all its records. None if nothing is known."""
    topics = {partition.topic for partition in positions}
    lag, known = 0, False
    for partition, (first, last) in spans.items():
        if partition.topic in topics:
            known = True
            lag += max(0, last - max(first, positions.get(partition, first)))
    return lag if known else None
