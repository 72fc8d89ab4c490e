"""Finds and describes groups of every type, and reads their offsets.

Classic, consumer and streams groups commit offsets. A share group has a start offset for each share partition instead:
all records before it are processed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.cli.kafka_tools.support.group_offsets import commit, committed
from headrace.cli.kafka_tools.support.group_view import (
    Group,
    Listed,
    describe_streams_group,
    described,
    listed,
    share_group,
    streams_group,
)
from headrace.cli.kafka_tools.support.share_offsets import alter_share_offsets, describe_share_group, share_positions
from headrace.cli.support.connection import Failed
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition

SHARE: Final = "Share"
STREAMS: Final = "Streams"


async def find_groups(client: ClusterClient, names: Sequence[str] | None) -> list[Listed]:
    """The groups with these names, or all groups if no name is given, sorted. Raises Failed with the nearest name."""
    known = {group.id: group for group in await listed(client)}
    for name in names or ():
        if name not in known:
            raise Failed(f"group {name!r} does not exist.{nearest(name, known)}")
    return [known[name] for name in sorted(names or known)]


async def find_group(client: ClusterClient, name: str) -> Listed:
    (group,) = await find_groups(client, [name])
    return group


async def describe_group(client: ClusterClient, group: Listed) -> Group:
    """Describes a group through its coordinator. A group that was deleted meanwhile is Dead."""
    if group.type not in (SHARE, STREAMS):
        return await described(client, group.id, missing_is_empty=True)
    node = await client.coordinator(group.id)
    if group.type == STREAMS:
        streams = await describe_streams_group(client, group.id)
        return Group(group.id, "Dead", "", node) if streams.error_code else streams_group(streams, node)
    found = await describe_share_group(client, group.id)
    return Group(group.id, "Dead", "", node) if found.error_code else share_group(found, node)


async def positions_of(client: ClusterClient, group: Listed) -> dict[TopicPartition, int | None]:
    """Committed offsets, or start offsets of share partitions. None for a share partition that was never fetched."""
    if group.type == SHARE:
        return {p: position.start_offset for p, position in (await share_positions(client, group.id)).items()}
    return {p: position.offset for p, position in (await committed(client, group.id)).items()}


async def move_positions(client: ClusterClient, group: Listed, targets: Mapping[TopicPartition, int]) -> None:
    await (alter_share_offsets if group.type == SHARE else commit)(client, group.id, targets)
