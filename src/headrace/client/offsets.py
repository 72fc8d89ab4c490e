"""Offsets of many partitions: asks all leaders at the same time, each for its own partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
# Names of the special times.
SPECIAL_TIMES: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}


@dataclass(frozen=True, slots=True)
class FoundOffset:
    offset: int  # -1: no record at or after that time
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    client: ClusterClient,
    times: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
) -> dict[TopicPartition, FoundOffset | Fault]:
    """For each partition the offset at its time, or its fault."""
    by_leader: dict[int, list[TopicPartition]] = {}
    found: dict[TopicPartition, FoundOffset | Fault] = {}
    for partition in times:
        leader = leaders.get(partition, -1)
        if leader < 0:
            found[partition] = Refused(ErrorCode.leader_not_available, f"{partition} has no leader")
        else:
            by_leader.setdefault(leader, []).append(partition)
    answers = await asyncio.gather(
        *(_ask(client, leader, {p: times[p] for p in asked}, isolation_level) for leader, asked in by_leader.items())
    )
    for answer in answers:
        found |= answer
    return found


async def _ask(
    client: ClusterClient, leader: int, times: Mapping[TopicPartition, int], isolation_level: int
) -> dict[TopicPartition, FoundOffset | Fault]:
    topics: dict[str, list[dict[str, int]]] = {}
    for partition, time in times.items():
        question = {"partition_index": partition.partition, "current_leader_epoch": -1, "timestamp": time}
        topics.setdefault(partition.topic, []).append(question)
    body = {
        "replica_id": -1,
        "isolation_level": isolation_level,
        "topics": [{"name": name, "partitions": asked} for name, asked in topics.items()],
        "timeout": 30_000,
    }
    found: dict[TopicPartition, FoundOffset | Fault] = {}
    try:
        answer = await client.request(ApiKey.LIST_OFFSETS, body, node=leader)
    except Fault as fault:
        return dict.fromkeys(times, fault)
    for topic in answer.topics:
        for item in topic.partitions:
            partition = TopicPartition(str(topic.name), int(item.partition_index))
            code = ErrorCode(item.error_code)
            if code is ErrorCode.none:
                epoch = int(getattr(item, "leader_epoch", -1))
                found[partition] = FoundOffset(int(item.offset), int(item.timestamp), epoch)
            else:
                found[partition] = Refused(code, f"{partition}: {code.name}")
    return found
