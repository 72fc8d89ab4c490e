"""Metadata, offsets and sizes of topics, partition by partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.kernel.errors import Fault
from headrace.kernel.ids import ZERO_UUID, TopicPartition, uuid_to_text
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_log_dirs import DescribeLogDirsResult
    from headrace.wire.messages.answers.metadata import MetadataResponseTopic


class TopicRow(TypedDict):
    topic: str
    partitions: int
    replicas: int
    records: int
    size: int
    under_replicated: int
    offline: int
    id: str


class PartitionRow(TypedDict):
    topic: str
    partition: int
    leader: int | None
    epoch: int
    replicas: list[int]
    isr: list[int]
    first_offset: int | None
    end_offset: int | None


def leaders_of(topics: list[MetadataResponseTopic]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(str(topic.name), int(p.partition_index)): int(p.leader_id)
        for topic in topics
        for p in topic.partitions
    }


async def offset_spans(
    client: ClusterClient, topics: list[MetadataResponseTopic]
) -> dict[TopicPartition, tuple[int, int] | None]:
    """First offset and end of each partition; None if its leader does not answer."""
    leaders = leaders_of(topics)
    first, last = await asyncio.gather(
        list_offsets(client, dict.fromkeys(leaders, EARLIEST), leaders),
        list_offsets(client, dict.fromkeys(leaders, LATEST), leaders),
    )
    spans: dict[TopicPartition, tuple[int, int] | None] = {}
    for partition in leaders:
        low, high = first[partition], last[partition]
        spans[partition] = None if isinstance(low, Fault) or isinstance(high, Fault) else (low.offset, high.offset)
    return spans


async def log_dirs(client: ClusterClient) -> dict[int, list[DescribeLogDirsResult]]:
    """Log directories of every broker that answers."""

    async def ask(node: int) -> list[DescribeLogDirsResult]:
        try:
            return list((await client.request(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node=node)).results)
        except Fault:
            return []

    nodes = sorted(client.metadata.nodes)
    return dict(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))


async def sizes(client: ClusterClient) -> dict[str, int]:
    """Bytes on disk by topic, summed over all replicas."""
    found: dict[str, int] = {}
    for directories in (await log_dirs(client)).values():
        for directory in directories:
            for topic in directory.topics:
                held = sum(int(p.partition_size) for p in topic.partitions)
                found[str(topic.name)] = found.get(str(topic.name), 0) + held
    return found


async def topic_rows(client: ClusterClient, topics: list[MetadataResponseTopic]) -> list[TopicRow]:
    spans, held = await asyncio.gather(offset_spans(client, topics), sizes(client))
    rows: list[TopicRow] = []
    for topic in topics:
        name = str(topic.name)
        own = [spans[TopicPartition(name, int(p.partition_index))] for p in topic.partitions]
        lacking = sum(len(p.isr_nodes) < len(p.replica_nodes) for p in topic.partitions)
        offline = sum(int(p.leader_id) < 0 for p in topic.partitions)
        rows.append(
            {
                "topic": name,
                "partitions": len(topic.partitions),
                "replicas": max((len(p.replica_nodes) for p in topic.partitions), default=0),
                "records": sum(span[1] - span[0] for span in own if span is not None),
                "size": held.get(name, 0),
                "under_replicated": lacking,
                "offline": offline,
                "id": uuid_to_text(topic.topic_id or ZERO_UUID),
            }
        )
    return rows


async def partition_rows(client: ClusterClient, topics: list[MetadataResponseTopic]) -> list[PartitionRow]:
    spans = await offset_spans(client, topics)
    rows: list[PartitionRow] = []
    for topic in topics:
        for p in sorted(topic.partitions, key=lambda part: int(part.partition_index)):
            span = spans[TopicPartition(str(topic.name), int(p.partition_index))]
            rows.append(
                {
                    "topic": str(topic.name),
                    "partition": int(p.partition_index),
                    "leader": int(p.leader_id) if p.leader_id >= 0 else None,
                    "epoch": int(p.leader_epoch),
                    "replicas": [int(node) for node in p.replica_nodes],
                    "isr": [int(node) for node in p.isr_nodes],
                    "first_offset": None if span is None else span[0],
                    "end_offset": None if span is None else span[1],
                }
            )
    return rows
