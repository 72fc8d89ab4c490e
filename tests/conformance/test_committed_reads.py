"""`read_committed` readers on random logs of transactions: every offset range gives what third-party consumers give.

confluent-kafka (librdkafka) and aiokafka determine which offsets of a log are visible, from every start offset. Then
each of our readers reads every pair (start, end) of offsets and must return the visible offsets between them: the Spark
source's partition reader, the wire client, `headrace consume`, the console consumer. `make fuzz` uses more seeds and
also reads every pair in small chunks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.cli.kafka_tools import console_consumer
from headrace.cli.kafka_tools.support.tool import guarded
from headrace.cli.records.reader import Span, read
from headrace.client.blocking.client import LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.demos.wordcount.demo import TopicReader
from headrace.kernel.ids import TopicPartition as Place
from headrace.pipelines.flows.dead_letter_headers import SUFFIX, TOPIC_HEADER
from headrace.pipelines.flows.dead_letters import list_dead_letters, retry_dead_letters
from headrace.storage.compaction.cleaner import Cleaner
from headrace.storage.compaction.job import dirt_of, install, prepare
from headrace.testing import RunningBroker, broker
from tests.support.committed_readers import Reader, assert_readers_agree, truth
from tests.support.effort import is_long, rounds
from tests.support.transaction_logs import Headers, TransactionLog

pytestmark = pytest.mark.fuzz

SEEDS = range(rounds(short=2, long=15))
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    # The tests start compaction themselves, so that it does not run during their reads.
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
    """Compacts everything below the last stable offset, as if the clock were this many hours ahead."""

    def clean() -> None:
        log = running.broker.log_dirs.log(topic, 0)
        assert log is not None
        now_ms = time.time_ns() // 1_000_000 + hours * HOUR_MS
        log.roll()
        job = prepare(log, dirt_of(log, None, now_ms), replicated_up_to=log.high_watermark, now_ms=now_ms)
        assert install(log, job, Cleaner(1 << 20).clean(job), now_ms)

    running.call(clean)


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
def test_every_range_of_a_random_compacted_log(
    running: RunningBroker, bootstrap: str, client: BlockingClient, topic: str, seed: int
) -> None:
    log = new_log(client, topic, seed + 1000, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    # The first round removes the records of aborted transactions, a later round their markers.
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


def test_every_range_of_the_log_where_spark_skipped_rows(bootstrap: str, client: BlockingClient, topic: str) -> None:
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


def headrace_consume(bootstrap: str, topic: str) -> Reader:
    return lambda start, end: [seen.offset for seen in read(bootstrap, {Place(topic, 0): Span(start, end)})]


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


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_range_with_the_command_line_consumers(
    running: RunningBroker,
    bootstrap: str,
    client: BlockingClient,
    topic: str,
    seed: int,
    compacted: bool,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    log = new_log(client, topic, seed + 2000, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    for hours in (0, 2) if compacted else ():
        log.work(4)
        log.settle()
        compact(running, topic, hours=hours)
    log.work(8)
    log.end_all()
    stable = log.settle()
    visible = truth(bootstrap, topic, stable)
    assert set(visible) <= set(log.visible(stable))
    assert compacted or visible == log.visible(stable)
    # Each read waits for further records, so many run at a time.
    consume = headrace_consume(bootstrap, topic)
    pairs = [(start, end) for start in range(stable + 1) for end in range(start, stable + 1)]
    with ThreadPoolExecutor(16) as pool:
        for (start, end), found in zip(pairs, pool.map(lambda pair: consume(*pair), pairs), strict=True):
            assert found == [offset for offset in visible if start <= offset < end], f"from {start} to {end}"
    # The console consumer has no end offset. It stops after a number of records.
    for start in range(stable):
        expected = [offset for offset in visible if offset >= start]
        counts = range(1, len(expected) + 1) if is_long() or not start else [len(expected)]
        for count in filter(None, counts):
            assert console_consumer_output(bootstrap, topic, start, count, capsysbinary) == expected[:count]


@pytest.mark.parametrize("seed", SEEDS)
def test_retry_sends_every_dead_letter_record_back_once(
    bootstrap: str, client: BlockingClient, topic: str, seed: int
) -> None:
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
    letters = fetched_records(client, (topic + SUFFIX, 0), 0, stable, settings)  # type: ignore[assignment]
    end = client.list_offsets({(topic, 0): LATEST}, isolation=READ_COMMITTED)[(topic, 0)]
    back = fetched_records(client, (topic, 0), 0, end, settings)
    assert [(r.key, r.value) for r in back] == [(r.key, r.value) for r in letters]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
def test_demo_reader_follows_a_growing_log(bootstrap: str, client: BlockingClient, topic: str, seed: int) -> None:
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
