"""Fetches records of many partitions on an event loop: one request to each leader at a time.

    answers = await fetch_records(client, {TopicPartition("orders", 0): 17}, max_wait_ms=500)
    answers[partition]        # FetchedRecords, or the fault of the partition

A fetch waits at the broker, and answers come in order. So a reader needs a client of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import NoAnswer, Unreachable
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record
from headrace.records.reader import iter_records
from headrace.records.visible import visible_batches, whole_batches
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    }
)
"""Errors that new metadata and a retry can clear."""


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    records: list[Record]
    next_offset: int
    high_watermark: int


def has_moved(fault: Fault) -> bool:
    """Whether the fetch can succeed after new metadata."""
    return isinstance(fault, Unreachable | NoAnswer) or fault.code in MOVED


async def fetch_records(
    client: ClusterClient,
    positions: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int,
    max_bytes: int = 1 << 20,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, FetchedRecords | Fault]:
    """The records from each offset on. Raises Fault if a topic is unknown or the caller may not read its metadata."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for partition, leader in (await _leaders(client, positions)).items():
        by_leader.setdefault(leader, {})[partition] = positions[partition]
    answers = await asyncio.gather(
        *(_ask(client, leader, asked, max_wait_ms, max_bytes, isolation_level) for leader, asked in by_leader.items())
    )
    return {partition: found for answer in answers for partition, found in answer.items()}


async def _leaders(client: ClusterClient, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    topics = sorted({partition.topic for partition in positions})
    known = client.metadata.topics
    if any(name not in known or known[name].error_code for name in topics):
        await client.leaders(topics)
    found = {
        TopicPartition(name, int(one.partition_index)): int(one.leader_id)
        for name in topics
        for one in client.metadata.topics[name].partitions
    }
    for partition in positions:
        if partition not in found:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"partition {partition} does not exist")
    return {partition: found[partition] for partition in positions}


async def _ask(
    client: ClusterClient,
    leader: int,
    positions: Mapping[TopicPartition, int],
    max_wait_ms: int,
    max_bytes: int,
    isolation_level: int,
) -> dict[TopicPartition, FetchedRecords | Fault]:
    if leader < 0:
        return {one: Refused(ErrorCode.leader_not_available, f"{one} has no leader") for one in positions}
    topics: dict[str, list[dict[str, int]]] = {}
    for partition, offset in positions.items():
        asked = {"partition": partition.partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        topics.setdefault(partition.topic, []).append({**asked, "log_start_offset": -1, "current_leader_epoch": -1})
    body: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": 0,
        "session_epoch": -1,
        "rack_id": "",
        "forgotten_topics_data": [],
        "topics": [{"topic": name, "partitions": asked} for name, asked in topics.items()],
    }
    try:
        timeout = client.timeout + max_wait_ms / 1000
        answer = await client.request(ApiKey.FETCH, body, node=leader, at_most=11, timeout=timeout)
    except Fault as fault:
        return dict.fromkeys(positions, fault)
    if answer.error_code:
        code = ErrorCode(answer.error_code)
        return dict.fromkeys(positions, Refused(code, f"fetch from broker {leader}: {code.name}"))
    found: dict[TopicPartition, FetchedRecords | Fault] = {}
    for topic in answer.responses:
        for item in topic.partitions:
            partition = TopicPartition(str(topic.topic), int(getattr(item, "partition_index", 0)))
            found[partition] = _read(item, partition, positions[partition])
    return found


def _read(item: Entity, partition: TopicPartition, offset: int) -> FetchedRecords | Fault:
    code = ErrorCode(item.error_code)
    if code is not ErrorCode.none:
        return Refused(code, f"fetch of {partition} at offset {offset}: {code.name}")
    aborted = [(int(each.producer_id), int(each.first_offset)) for each in item.aborted_transactions or ()]
    try:
        records, next_offset = visible_records(bytes(item.records or b""), aborted, offset)
    except Fault as fault:
        return fault
    return FetchedRecords(records, next_offset, int(item.high_watermark))


def visible_records(chunk: bytes, aborted: Collection[tuple[int, int]], offset: int) -> tuple[list[Record], int]:
    """The records of a fetched chunk from `offset` on that a consumer sees, and the next offset to fetch. Raises
    CorruptBatch."""
    size, next_offset = whole_batches(chunk)
    records = [
        record
        for batch in visible_batches(memoryview(chunk)[:size], aborted, offset)
        for record in iter_records(batch)
        if record.offset >= offset
    ]
    return records, max(next_offset, offset)
