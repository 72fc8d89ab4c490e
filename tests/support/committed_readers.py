"""Third-party consumers and our readers on one partition: which offsets they return for which range."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.client.blocking.client import READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.cluster_client import ClusterClient
from headrace.client.record_fetch import FetchedRecords, fetch_records
from headrace.kernel.ids import TopicPartition as OurPartition
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.offsets import OffsetRange
from headrace.pipelines.source.reader import RangePartition, read_range
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.effort import is_long

ALL_AT_ONCE = 1 << 20
# One batch at a time, or a few, so that a chunk begins and ends anywhere in a transaction.
SMALL_CHUNKS = (1, 400)


# Third-party consumers


class ConfluentReader:
    def __init__(self, bootstrap: str, topic: str, stable: int) -> None:
        self.topic, self.stable = topic, stable
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "truth", "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 5,
                "log_level": 0,
            }
        )  # fmt: skip

    def visible(self, start: int) -> list[int]:
        if start >= self.stable:
            return []
        self.consumer.assign([TopicPartition(self.topic, 0, start)])
        found: list[int] = []
        while True:
            message = self.consumer.poll(PATIENCE_S)
            assert message is not None, f"{self.topic} from {start}: no end after {found}"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                return found
            found.append(message.offset())

    def close(self) -> None:
        self.consumer.close()


async def visible_to_aiokafka(bootstrap: str, topic: str, starts: list[int], stable: int) -> dict[int, list[int]]:
    place = AiokafkaPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False, fetch_max_wait_ms=5
    )
    consumer.assign([place])
    await consumer.start()
    seen: dict[int, list[int]] = {}
    try:
        for start in starts:
            consumer.seek(place, start)
            seen[start] = []
            watch = Stopwatch()
            while await consumer.position(place) < stable:
                assert not watch.has_run(PATIENCE_S), f"{topic} from {start}: no end after {seen[start]}"
                for message in (await consumer.getmany(place, timeout_ms=50)).get(place, ()):
                    seen[start].append(message.offset)
    finally:
        await consumer.stop()
    return seen


def truth(bootstrap: str, topic: str, stable: int) -> list[int]:
    """The visible offsets. Both consumers agree on them, whatever offset they start at."""
    if not stable:
        return []
    starts = list(range(stable))
    confluent = ConfluentReader(bootstrap, topic, stable)
    try:
        by_confluent = {start: confluent.visible(start) for start in starts}
    finally:
        confluent.close()
    by_aiokafka = asyncio.run(visible_to_aiokafka(bootstrap, topic, starts, stable))
    for start in starts:
        expected = [offset for offset in by_confluent[0] if offset >= start]
        assert by_confluent[start] == expected, f"confluent-kafka from {start}"
        assert by_aiokafka[start] == expected, f"aiokafka from {start}"
    return by_confluent[0]


# Our readers

Reader = Callable[[int, int], list[int]]


def spark_source(bootstrap: str, topic: str, fetch_bytes: int) -> Reader:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
        "kafka.max.partition.fetch.bytes": str(fetch_bytes),
    }
    options = SourceOptions.parse(given, streaming=True)

    def offsets(start: int, end: int) -> list[int]:
        rows = read_range(options, RangePartition(OffsetRange(topic, 0, start, end)))
        return [offset for batch in rows for offset in batch.column("offset").to_pylist()]

    return offsets


def wire_client(client: BlockingClient, topic: str, fetch_bytes: int) -> Reader:
    settings = FetchSettings(isolation=READ_COMMITTED, max_bytes=fetch_bytes, stall_timeout_s=PATIENCE_S)
    return lambda start, end: [r.offset for r in fetched_records(client, (topic, 0), start, end, settings)]


async def visible_to_async_client(bootstrap: str, topic: str, stable: int, fetch_bytes: int) -> dict[int, list[int]]:
    """What the HTTP services read from each start offset."""
    place = OurPartition(topic, 0)
    client = ClusterClient(bootstrap, client_id="test")
    seen: dict[int, list[int]] = {}
    try:
        for start in range(stable):
            seen[start], at = [], start
            while at < stable:
                (found,) = (
                    await fetch_records(
                        client, {place: at}, max_wait_ms=5, max_bytes=fetch_bytes, isolation_level=READ_COMMITTED
                    )
                ).values()
                assert isinstance(found, FetchedRecords), found
                assert found.next_offset > at, f"{topic} at {at}: nothing, although {stable} is stable"
                seen[start] += [record.offset for record in found.records]
                at = found.next_offset
    finally:
        await client.close()
    return seen


def assert_every_range(name: str, reader: Reader, visible: list[int], stable: int) -> None:
    for start in range(stable + 1):
        for end in range(start, stable + 1):
            expected = [offset for offset in visible if start <= offset < end]
            assert reader(start, end) == expected, f"{name} from {start} to {end}"


def assert_every_start(name: str, reader: Reader, visible: list[int], stable: int) -> None:
    for start in range(stable + 1):
        assert reader(start, stable) == [offset for offset in visible if start <= offset], f"{name} from {start}"


def assert_readers_agree(bootstrap: str, client: BlockingClient, topic: str, visible: list[int], stable: int) -> None:
    assert_every_range("Spark source", spark_source(bootstrap, topic, ALL_AT_ONCE), visible, stable)
    assert_every_range("client", wire_client(client, topic, ALL_AT_ONCE), visible, stable)
    assert_small = assert_every_range if is_long() else assert_every_start
    for size in (ALL_AT_ONCE, *SMALL_CHUNKS):
        by_start = asyncio.run(visible_to_async_client(bootstrap, topic, stable, size))
        for start, found in by_start.items():
            assert found == [offset for offset in visible if start <= offset], f"async client, {size}, from {start}"
    for size in SMALL_CHUNKS:
        assert_small(f"Spark source, {size} bytes", spark_source(bootstrap, topic, size), visible, stable)
        assert_small(f"client, {size} bytes", wire_client(client, topic, size), visible, stable)
