"""Describes share groups, and reads and changes the start offsets of their share partitions.

Used by `kafka-share-groups` and `headrace groups`. A share partition has a start offset from its first fetch on. All
records before it are processed. Lag is the number of records after it that are not processed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.tool import ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.share_group_describe import DescribedGroup


@dataclass(frozen=True, slots=True)
class SharePosition:
    """Fields are None if the group has not fetched the partition yet, or if the broker does not report them."""

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


async def describe_share_group(client: ClusterClient, name: str) -> DescribedGroup:
    """The answer for this group, even if it is an error."""
    body = {"group_ids": [name], "include_authorized_operations": False}
    found: DescribedGroup = (await client.to_coordinator(name, ApiKey.SHARE_GROUP_DESCRIBE, body)).groups[0]
    return found


async def share_positions(client: ClusterClient, name: str) -> dict[TopicPartition, SharePosition]:
    """Positions of all share partitions of the group, sorted. Raises ToolFailed."""
    body = {"groups": [{"group_id": name, "topics": None}]}
    group = (await client.to_coordinator(name, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, body)).groups[0]
    if group.error_code:
        raise ToolFailed(answer_error(group))
    found = {}
    for topic in group.topics:
        for part in topic.partitions:
            start, lag = int(part.start_offset), int(getattr(part, "lag", -1))
            partition = TopicPartition(str(topic.topic_name), int(part.partition_index))
            found[partition] = (
                SharePosition(start, int(part.leader_epoch), lag if lag >= 0 else None)
                if start >= 0
                else SharePosition(None, None, None)
            )
    return dict(sorted(found.items()))


async def alter_share_offsets(client: ClusterClient, name: str, targets: Mapping[TopicPartition, int]) -> None:
    """Changes start offsets of a group without members. Raises ToolFailed."""
    topics: dict[str, list[dict[str, int]]] = {}
    for partition, offset in targets.items():
        entry = {"partition_index": partition.partition, "start_offset": offset}
        topics.setdefault(partition.topic, []).append(entry)
    body = {
        "group_id": name,
        "topics": [{"topic_name": topic, "partitions": parts} for topic, parts in topics.items()],
    }
    answer = await client.to_coordinator(name, ApiKey.ALTER_SHARE_GROUP_OFFSETS, body)
    if answer.error_code:
        raise ToolFailed(f"Failed to reset offsets of share group {name}: {answer_error(answer)}")
    for topic in answer.responses:
        for part in topic.partitions:
            if part.error_code:
                raise ToolFailed(f"{topic.topic_name}-{part.partition_index}: {answer_error(part)}")
