"""kafka-replica-verification: reads all replicas of partitions and compares their records below the high watermark.

It fetches range by range from the broker of each replica, up to the smallest high watermark. It prints each difference
with partition, offset and brokers.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from dataclasses import dataclass

from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, FoundOffset, list_offsets
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import batches
from headrace.records.visible import whole_batches
from headrace.wire.apis import ApiKey

# Kafka's replica id for debugging consumers: followers answer it, and leaders do not count it as a follower.
DEBUGGING_REPLICA = -2
OPTIONS = (
    *CONNECTION,
    Option("topics-include", "A regular expression of topics.", "regex", default=".*"),
    Option("fetch-size", "Bytes asked for at once.", "bytes", int, default=1048576),
    Option("max-wait-ms", "How long a fetch may wait.", "ms", int, default=1000),
    Option("report-interval-ms", "How often to report while following.", "ms", int, default=30000),
    Option("time", "Accepted; comparison begins at the beginning.", "ms", int, default=-1),
    Option("once", "Compare the existing records once and end."),
)


@dataclass(frozen=True)
class Replicas:
    partition: TopicPartition
    leader: int
    brokers: tuple[int, ...]


async def run(arguments: Arguments, client: ClusterClient) -> int:
    pattern = re.compile(arguments["topics-include"])
    await client.refresh(None)
    chosen = [
        Replicas(TopicPartition(name, int(p.partition_index)), int(p.leader_id), tuple(int(n) for n in p.replica_nodes))
        for name, topic in client.metadata.topics.items()
        if pattern.fullmatch(name)
        for p in topic.partitions
        if p.leader_id >= 0
    ]
    if not chosen:
        raise ToolFailed("No topics found. Exiting.")
    topics = {replicas.partition.topic for replicas in chosen}
    print(f"verification process is started: {len(chosen)} partitions of {len(topics)} topics.")
    positions: dict[TopicPartition, int] = {}
    while True:
        began = time.monotonic()
        differences = compared = 0
        worst: tuple[int, Replicas | None, int] = (0, None, -1)
        for replicas in chosen:
            found = await _compare(client, replicas, positions, arguments)
            differences += found.differences
            compared += found.compared
            if found.lag > worst[0]:
                worst = (found.lag, replicas, found.at)
        lag, where, at = worst
        place = f"for partition {where.partition} at offset {at} " if where else ""
        counts = f"{compared} records compared, {differences} differences"
        print(f"max lag is {lag} {place}among {len(chosen)} partitions; {counts}")
        if arguments["once"] or differences:
            return 1 if differences else 0
        await asyncio.sleep(max(0.0, arguments["report-interval-ms"] / 1000 - (time.monotonic() - began)))


@dataclass
class Comparison:
    compared: int = 0
    differences: int = 0
    lag: int = 0
    at: int = -1


async def _compare(
    client: ClusterClient, replicas: Replicas, positions: dict[TopicPartition, int], arguments: Arguments
) -> Comparison:
    partition = replicas.partition
    if partition not in positions:
        found = (await list_offsets(client, {partition: EARLIEST}, {partition: replicas.leader}))[partition]
        if isinstance(found, Fault):
            raise found
        assert isinstance(found, FoundOffset)
        positions[partition] = found.offset
    result = Comparison()
    while True:
        at = positions[partition]
        answers = await asyncio.gather(*(_fetch(client, node, partition, at, arguments) for node in replicas.brokers))
        limit = min(high_watermark for high_watermark, _ in answers)
        ends = []
        heads: list[dict[int, tuple[int, int]]] = []
        for high_watermark, data in answers:
            found_batches = {
                b.base_offset: (b.crc, b.last_offset) for b in batches(memoryview(data)) if b.last_offset < limit
            }
            heads.append(found_batches)
            ends.append(max((last for _, last in found_batches.values()), default=at - 1) + 1)
            result.lag = max(result.lag, high_watermark - ends[-1])
        result.at = at
        common = min(ends)
        if common <= at:
            return result
        for node, head in zip(replicas.brokers[1:], heads[1:], strict=True):
            for base, (crc, last) in heads[0].items():
                if last < common and head.get(base, (None, None))[0] != crc:
                    result.differences += 1
                    pair = f"brokers {replicas.brokers[0]} and {node}"
                    print(f"partition {partition} differs at offset {base} between {pair}")
        result.compared += common - at
        positions[partition] = common


async def _fetch(
    client: ClusterClient, node: int, partition: TopicPartition, offset: int, arguments: Arguments
) -> tuple[int, bytes]:
    part = {"partition": partition.partition, "fetch_offset": offset, "partition_max_bytes": arguments["fetch-size"]}
    body: dict[str, object] = {
        "replica_id": DEBUGGING_REPLICA, "max_wait": arguments["max-wait-ms"], "min_bytes": 0, "max_bytes": 50 << 20,
        "isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": "", "forgotten_topics_data": [],
        "topics": [{"topic": partition.topic, "partitions": [{**part, "log_start_offset": -1}]}],
    }  # fmt: skip
    # Version 11 uses topic names. Later versions use topic ids and reject the debugging consumer.
    answer = await client.request(ApiKey.FETCH, body, node=node, at_most=11)
    found = answer.responses[0].partitions[0]
    if found.error_code:
        raise ToolFailed(f"{partition} on broker {node}: {ErrorCode(found.error_code).name}")
    records = bytes(found.records or b"")
    return int(found.high_watermark), records[: whole_batches(records)[0]]


TOOL = Tool("Compare the replicas of partitions.", OPTIONS, run)

if __name__ == "__main__":
    sys.exit(TOOL.main())
