"""Readers of committed records on random logs of transactions: every range gives what other makes of consumers give.

confluent-kafka (librdkafka) and aiokafka say which offsets of a log are visible, from every offset on.
Then each of our readers reads every pair (start, end) of offsets and must give the visible offsets between them: the
Spark source's partition reader, the wire client, `headrace consume`, the console consumer. `make fuzz` takes more seeds
and reads every pair in small chunks as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, TopicPartition

from headrace.cli.kafka_tools import console_consumer
from headrace.cli.kafka_tools.running import guarded
from headrace.cli.reading import Span, read
from headrace.client.blocking import LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking_fetch import FetchSettings, fetched_records
from headrace.kernel.ids import TopicPartition as Place
from headrace.pipelines.demo import TopicReader
from headrace.pipelines.dlq import list_dead_letters, retry_dead_letters
from headrace.pipelines.dlq_names import SUFFIX, TOPIC_HEADER
from headrace.pipelines.offsets import OffsetRange
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source import RangePartition, read_range
from headrace.storage.cleaner import Cleaner, dirt_of, install, prepare
from headrace.testing import RunningBroker, broker
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.effort import is_long, rounds
from tests.support.transaction_logs import Headers, TransactionLog

pytestmark = pytest.mark.fuzz

SEEDS = range(rounds(short=2, long=40))
ALL_AT_ONCE = 1 << 20
# One batch at a time, a few at a time: a chunk begins and ends anywhere in a transaction.
SMALL_CHUNKS = (1, 400)
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    # Logs are compacted when a test says so, and not while it reads them.
    with broker({"log.cleaner.backoff.ms": "86400000"}) as started:
        yield started


@pytest.fixture
def client(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as connected:
        yield connected


def new_log(client: BlockingClient, topic: str, seed: int, headers: Headers = (), **configs: str) -> TransactionLog:
    chosen = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in configs.items()}}
    client.create_topic(topic, 1, replication_factor=1, configs=chosen)
    return TransactionLog(client, (topic, 0), seed, headers)


def compact(running: RunningBroker, topic: str, *, hours: int) -> None:
    """Cleans everything below the last stable offset, as if it were this many hours later."""

    def clean() -> None:
        log = running.broker.log_dirs.log(topic, 0)
        assert log is not None
        now_ms = time.time_ns() // 1_000_000 + hours * HOUR_MS
        log.roll()
        job = prepare(log, dirt_of(log, None, now_ms), replicated_up_to=log.high_watermark, now_ms=now_ms)
        assert install(log, Cleaner(1 << 20).clean(job), now_ms)

    running.call(clean)


# --- consumers of other makes: the visible offsets from `start` to the last stable offset ---------------------------


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
            if message.error() is not None:
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


# --- readers of ours -------------------------------------------------------------------------------------------------

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


def headrace_consume(bootstrap: str, topic: str) -> Reader:
    return lambda start, end: [seen.offset for seen in read(bootstrap, {Place(topic, 0): Span(start, end)})]


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
    for size in SMALL_CHUNKS:
        assert_small(f"Spark source, {size} bytes", spark_source(bootstrap, topic, size), visible, stable)
        assert_small(f"client, {size} bytes", wire_client(client, topic, size), visible, stable)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_range_of_a_random_log(bootstrap: str, client: BlockingClient, topic: str, seed: int) -> None:
    log = new_log(client, topic, seed)
    log.work(18)
    log.end_all()
    log.work(4)
    stable = log.settle()
    visible = truth(bootstrap, topic, stable)
    assert visible == log.visible(stable)
    assert_readers_agree(bootstrap, client, topic, visible, stable)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_range_of_a_random_log_that_was_compacted(
    running: RunningBroker, bootstrap: str, client: BlockingClient, topic: str, seed: int
) -> None:
    log = new_log(client, topic, seed + 1000, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    # The first round takes the records of aborted transactions away, a later one their markers.
    for hours in (0, 2, 4)[: 1 + seed % 3]:
        log.work(12)
        log.settle()
        compact(running, topic, hours=hours)
    log.end_all()
    log.work(4)
    stable = log.settle()
    visible = truth(bootstrap, topic, stable)
    assert set(visible) <= set(log.visible(stable))
    assert_readers_agree(bootstrap, client, topic, visible, stable)


def test_every_range_of_the_log_whose_rows_spark_skipped(bootstrap: str, client: BlockingClient, topic: str) -> None:
    """10 committed, 10 aborted, 10 committed records of one producer, 10 plain ones, 10 in an open transaction."""
    log = new_log(client, topic, 0)
    producer = log.producers[0]
    for commit in (True, False, True):
        producer.write(log.records(10))
        log.end_transaction(producer, commit=commit)
    log.write_plain(10)
    producer.write(log.records(10))
    stable = log.settle()
    assert (stable, log.end) == (43, 53)
    visible = truth(bootstrap, topic, stable)
    assert visible == log.visible(stable)
    assert len(visible) == 30
    assert_readers_agree(bootstrap, client, topic, visible, stable)


def console_consumer_output(
    bootstrap: str, topic: str, start: int, count: int, output: pytest.CaptureFixture[bytes]
) -> list[int]:
    words = (
        f"--bootstrap-server {bootstrap} --topic {topic} --partition 0 --offset {start} --max-messages {count} "
        "--isolation-level read_committed --timeout-ms 20000 --formatter-property print.offset=true "
        "--formatter-property print.value=false"
    )
    output.readouterr()
    assert guarded("", console_consumer.OPTIONS, console_consumer.run, words.split(), check=console_consumer.check) == 0
    return [int(line.removeprefix(b"Offset:")) for line in output.readouterr().out.split()]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_range_for_the_command_line(
    bootstrap: str, client: BlockingClient, topic: str, seed: int, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = new_log(client, topic, seed + 2000)
    log.work(8)
    log.end_all()
    stable = log.settle()
    visible = truth(bootstrap, topic, stable)
    assert visible == log.visible(stable)
    # Each read waits for what might still come: many at a time.
    consume = headrace_consume(bootstrap, topic)
    pairs = [(start, end) for start in range(stable + 1) for end in range(start, stable + 1)]
    with ThreadPoolExecutor(16) as pool:
        for (start, end), found in zip(pairs, pool.map(lambda pair: consume(*pair), pairs), strict=True):
            assert found == [offset for offset in visible if start <= offset < end], f"from {start} to {end}"
    # The console consumer has no end: it stops after a number of records.
    for start in range(stable):
        expected = [offset for offset in visible if offset >= start]
        counts = range(1, len(expected) + 1) if is_long() or not start else [len(expected)]
        for count in filter(None, counts):
            assert console_consumer_output(bootstrap, topic, start, count, capsysbinary) == expected[:count]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_dead_letter_goes_back_once(bootstrap: str, client: BlockingClient, topic: str, seed: int) -> None:
    client.create_topic(topic, 1, replication_factor=1)
    log = new_log(client, topic + SUFFIX, seed + 3000, ((TOPIC_HEADER, topic.encode()),))
    sent_back = 0
    for _ in range(4):
        log.work(6)
        log.end_all()
        visible = truth(bootstrap, topic + SUFFIX, log.settle())
        (letters,) = (found for found in list_dead_letters(client) if found.topic == topic + SUFFIX)
        assert (letters.total, letters.waiting) == (len(visible), len(visible) - sent_back)
        assert retry_dead_letters(client, topic) == len(visible) - sent_back
        sent_back = len(visible)
    settings = FetchSettings(isolation=READ_COMMITTED)
    stable = log.settle()
    letters = fetched_records(client, (topic + SUFFIX, 0), 0, stable, settings)
    end = client.list_offsets({(topic, 0): LATEST}, isolation=READ_COMMITTED)[(topic, 0)]
    back = fetched_records(client, (topic, 0), 0, end, settings)
    assert [(r.key, r.value) for r in back] == [(r.key, r.value) for r in letters]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reader_of_the_demo_follows_a_log_that_grows(
    bootstrap: str, client: BlockingClient, topic: str, seed: int
) -> None:
    log = new_log(client, topic, seed + 4000)
    reader = TopicReader(bootstrap, topic)
    read: list[int] = []
    for number in range(60):
        log.step()
        if number % 10 == 9:
            log.end_all()
        stable = log.settle()
        read += [record.offset for record in reader.read_new()]
        assert read == log.visible(stable)
