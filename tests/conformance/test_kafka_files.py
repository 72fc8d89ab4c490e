"""Headrace uses Kafka's file formats: Kafka's tools and a real Kafka node read our files, and Headrace reads a
real node's files.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.broker import CannotStart
from headrace.broker.standalone import make_standalone
from headrace.config import load_broker_config
from headrace.kernel.ids import uuid_from_text
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.records.reader import read_records
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery import inspection
from headrace.testing.in_process import RunningBroker, broker
from tests.reference import kafka as reference
from tests.support.clock import wait_for
from tests.support.logs import read_batches
from tests.support.names import unique

pytestmark = pytest.mark.skipif(not reference.available(), reason="Apache Kafka needs Java 17 (and Maven once)")

CONFIG = LogConfig(segment_bytes=20_000, segment_index_bytes=8192, index_interval_bytes=1024)
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def fill(log: Log, batches: int = 300) -> None:
    """All codecs, headers, nulls, three leader epochs, and seven transactional producers that commit, abort or
    stay open.
    """
    now_ms = int(time.time() * 1000) - 10_000
    sequences: dict[int, int] = {}
    for at in range(batches):
        producer_id, epoch = 5000 + at % 7, at // 100
        records = [
            Record(
                None if at % 9 == 0 else b"key-%d" % n,
                None if (at + n) % 10 == 0 else b"value %d.%d " % (at, n) * (1 + at % 20),
                (("header", b"x"), ("empty", None)) if n % 2 else (),
                now_ms + at * 10 + n,
            )
            for n in range(1 + at % 5)
        ]
        data = build_batch(
            records,
            codec=Codec(at % 5),
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=sequences.get(producer_id, 0),
            transactional=True,
        )
        log.append_as_leader(bytearray(data), leader_epoch=epoch, now_ms=now_ms)
        sequences[producer_id] = sequences.get(producer_id, 0) + len(records)
        if at % 11 == 10 or at > batches - 8:
            marker = build_end_txn_marker(at % 2 == 0, 3, producer_id, 1, now_ms + at * 10)
            log.append_as_leader(marker, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)


def contents(
    log: Log, *, committed: bool
) -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]:
    """Records that a consumer of this log must see: (offset, key, value, headers, timestamp)."""
    aborted = log.aborted_transactions(0, log.log_end_offset)
    seen: list[Any] = []
    for batch in read_batches(log):
        skipped = any(
            batch.producer_id == a.producer_id and a.first_offset <= batch.base_offset <= a.last_offset for a in aborted
        )
        if batch.is_control or (committed and batch.is_transactional and skipped):
            continue
        if committed and batch.last_offset >= log.last_stable_offset:
            continue
        seen += [(r.offset, r.key, r.value, list(r.headers), r.timestamp_ms) for r in read_records(batch)]
    return seen


def consume(
    bootstrap: str, topic: str, expected: int | None, isolation: str
) -> list[tuple[int, bytes, bytes, list[tuple[str, bytes]], int]]:
    """Reads this number of records and what follows them. Without a number, all before the marker that ends the log."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": unique("reader"), "isolation.level": isolation, "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[Any] = []
    place = TopicPartition(topic, 0)
    marker = consumer.get_watermark_offsets(place, timeout=30)[1] - 1 if expected is None else -1

    def is_done() -> bool:
        return len(seen) >= expected if expected is not None else consumer.position([place])[0].offset >= marker

    def is_read() -> bool:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            seen.append(
                (
                    message.offset(),
                    message.key(),
                    message.value(),
                    list(message.headers() or []),
                    message.timestamp()[1],
                )
            )
        return is_done()

    wait_for(is_read, lambda: f"{expected} records of {topic}, {len(seen)} are read", poll=0)
    # One more poll, to check that nothing follows.
    seen += [
        (m.offset(), m.key(), m.value(), list(m.headers() or []), m.timestamp()[1])
        for m in consumer.consume(10, timeout=0.5)
    ]
    consumer.close()
    return seen


# Kafka's tool on our files


@pytest.fixture(scope="module")
def our_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ours")
    dirs = LogDirs.open(StorageSettings([directory]), config_of=lambda topic: CONFIG)
    log = dirs.create("orders", 0, uuid.uuid4())
    fill(log)
    dirs.close()
    return directory / "orders-0"


@pytest.mark.parametrize(
    ("suffix", "options", "must_say"),
    [
        (
            ".log",
            ["--deep-iteration", "--print-data-log"],
            r"producerId: 5003 .*isTransactional: true .*compresscodec: ",
        ),
        (".index", ["--index-sanity-check"], r"passed sanity check"),
        (".index", ["--verify-index-only"], r"Dumping"),
        (".timeindex", ["--index-sanity-check"], r"passed sanity check"),
        (".timeindex", ["--verify-index-only"], r"Dumping"),
        (".snapshot", [], r"producerId: 5003 producerEpoch: 1 coordinatorEpoch: 3"),
        (".txnindex", [], r"version: 0 producerId: 500\d"),
    ],
)
def test_dump_log_segments_reads_every_kind_of_file(
    our_files: Path, suffix: str, options: list[str], must_say: str
) -> None:
    files = sorted(str(path) for path in our_files.glob("*" + suffix))
    assert len(files) >= 2
    done = reference.run_tool(DUMP, *options, "--files", ",".join(files))
    assert done.returncode == 0, done.stderr
    assert re.search(must_say, done.stdout)
    # The tool counts every file from offset -1 and so warns about each file that starts later. Any other warning is an
    # error.
    remarks = re.sub(r"Non-consecutive offsets in \S+/0*(\d+)\.log\n  -1 is followed by \1\n", "", done.stderr)
    assert remarks == ""
    for complaint in ("Mismatches", "Non-consecutive", "should be", "out of order", "rror", "Invalid"):
        assert complaint not in done.stdout


# A real node


def produce_everything(bootstrap: str) -> None:
    """A topic per codec, and one with committed and aborted transactions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(f"plain-{codec}", 1, 1, config={"segment.bytes": "1048576"}) for codec in CODECS]
    topics.append(NewTopic("transacted", 1, 1))
    topics.append(NewTopic("ours", 1, 1))
    compacted = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    topics.append(NewTopic("compacted", 1, 1, config=compacted))
    for future in admin.create_topics(topics).values():
        future.result(60)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
        for at in range(1500):
            producer.produce(
                f"plain-{codec}", key=b"%d" % at, value=b"some value %d " % at * 20, headers=[("n", b"%d" % at)]
            )
        producer.flush(60)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "compression.type": "lz4"})
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for at in range(20):
            producer.produce("transacted", key=b"%d" % at, value=b"turn %d" % turn)
        producer.flush(60)
        producer.abort_transaction(30) if turn % 3 == 1 else producer.commit_transaction(30)
    for turn in range(16):
        producer.begin_transaction()
        for at in range(60):
            # Incompressible, otherwise there would be no second segment to compact.
            producer.produce("compacted", key=b"%d" % (at * turn % 41), value=os.urandom(1500) if at % 9 else None)
        producer.flush(60)
        producer.abort_transaction(30) if turn % 3 == 1 else producer.commit_transaction(30)


def wait_for_compaction(log_dir: Path) -> None:
    """Waits until Kafka's log cleaner reports that it has compacted the topic."""
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    wait_for(lambda: re.search(r"^compacted 0 [1-9]", checkpoint.read_text(), re.MULTILINE), "Kafka's cleaner")


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[reference.ReferenceKafka, dict[str, list[object]]]]:
    """A Kafka node that has written its topics and stopped, with the records that its own consumers saw."""
    settings = {"log.cleaner.backoff.ms": "100"}
    kafka = reference.ReferenceKafka(tmp_path_factory.mktemp("kafka"), heap="512m", settings=settings)
    kafka.start()
    try:
        produce_everything(kafka.bootstrap)
        seen: dict[str, list[object]] = {
            f"plain-{codec}": list(consume(kafka.bootstrap, f"plain-{codec}", 1500, "read_committed"))
            for codec in CODECS
        }
        seen["transacted"] = list(consume(kafka.bootstrap, "transacted", 80, "read_committed"))
        wait_for_compaction(kafka.log_dir)
        seen["compacted"] = list(consume(kafka.bootstrap, "compacted", None, "read_committed"))
        assert 41 <= len(seen["compacted"]) < 600, "compaction removes most of the records"
        kafka.stop()
        yield kafka, seen
    finally:
        kafka.stop()


@pytest.mark.parametrize(
    ("clean", "lost"), [(True, ""), (True, "*/*.txnindex"), (False, "")], ids=["clean stop", "indexes lost", "crash"]
)
def test_headrace_opens_the_logs_of_a_real_node(
    node: tuple[reference.ReferenceKafka, dict[str, list[object]]], tmp_path: Path, clean: bool, lost: str
) -> None:
    kafka, seen = node
    copy = tmp_path / "logs"
    shutil.copytree(kafka.log_dir, copy)
    for topic in seen:
        assert inspection.verify(copy / f"{topic}-0").problems == [], "`headrace log verify` finds no error"
    for path in copy.glob(lost) if lost else ():
        path.unlink()
    if not clean:
        (copy / ".kafka_cleanshutdown").unlink()
        (copy / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    dirs = LogDirs.open(StorageSettings([copy], node_id=1))
    assert dirs.all_clean is clean and not dirs.damages
    identity = dirs.directories[0].identity
    assert identity is not None and identity.cluster_id == "HeadraceReference00000"
    for topic, expected in seen.items():
        log = dirs.log(topic, 0)
        assert log is not None and log.topic_id is not None
        assert contents(log, committed=True) == expected, topic
        assert log.high_watermark == log.log_end_offset
    transacted = dirs.log("transacted", 0)
    assert transacted is not None
    aborted = transacted.aborted_transactions(0, transacted.log_end_offset)
    assert [(a.first_offset, a.last_offset) for a in aborted] == [(21, 41), (84, 104)]
    (producer,) = transacted.producers.entries.values()
    assert producer.txn_first_offset is None and transacted.last_stable_offset == 126
    log = dirs.log("plain-zstd", 0)
    assert log is not None
    first = contents(log, committed=True)[700]
    found = log.offset_for_timestamp(first[4])
    assert found is not None and found.timestamp_ms >= first[4] and found.offset <= first[0]
    dirs.close()


def test_headrace_serves_the_directory_of_a_real_node(
    node: tuple[reference.ReferenceKafka, dict[str, list[object]]], tmp_path: Path
) -> None:
    """The broker refuses to start on it as it is, because the topics are in Kafka's metadata log, and says what
    to do.
    """
    kafka, seen = node
    copy = tmp_path / "logs"
    shutil.copytree(kafka.log_dir, copy)
    with pytest.raises(CannotStart, match=f"of cluster HeadraceReference00000.*`headrace log standalone {copy}`"):
        RunningBroker({}, copy)
    done = asyncio.run(make_standalone(load_broker_config({"log.dirs": str(copy)})))
    assert {*seen, "ours"} <= set(done.findings.made) and done.findings.left == ()
    with broker({}, data_dir=copy) as ours:
        for topic, expected in seen.items():
            count = None if topic == "compacted" else len(expected)
            assert consume(ours.bootstrap, topic, count, "read_committed") == expected, topic
        producer = Producer({"bootstrap.servers": ours.bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("transacted", b"after")
        producer.commit_transaction(30)
        again = consume(ours.bootstrap, "transacted", len(seen["transacted"]) + 1, "read_committed")
        assert again[:-1] == seen["transacted"] and again[-1][2] == b"after"


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop of ours", "after a crash of ours"])
def test_a_real_node_serves_our_logs(
    node: tuple[reference.ReferenceKafka, dict[str, list[object]]], tmp_path: Path, clean: bool
) -> None:
    kafka, _ = node
    theirs = kafka.log_dir / "ours-0"
    topic_id = uuid_from_text(re.search(r"topic_id: (\S+)", (theirs / "partition.metadata").read_text())[1])  # type: ignore[index]
    dirs = LogDirs.open(StorageSettings([tmp_path], node_id=1), config_of=lambda topic: CONFIG)
    log = dirs.create("ours", 0, topic_id)
    fill(log)
    log.advance_high_watermark(log.log_end_offset)
    everything, committed = contents(log, committed=False), contents(log, committed=True)
    assert 0 < len(committed) < len(everything)
    dirs.close(clean=clean)
    shutil.rmtree(theirs)
    shutil.copytree(tmp_path / "ours-0", theirs)
    if not clean:
        (kafka.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    meta = kafka.log_dir / "meta.properties"
    home = "headrace.store=zookeeper\nheadrace.store.since=2026-01-01T00:00:00Z\nheadrace.zookeeper.connect=h:1/c\n"
    meta.write_text(meta.read_text() + home)  # config keys of Headrace, which Kafka ignores
    kafka.start()
    try:
        assert consume(kafka.bootstrap, "ours", len(everything), "read_uncommitted") == everything
        assert consume(kafka.bootstrap, "ours", len(committed), "read_committed") == committed
    finally:
        kafka.stop()
