"""Spark reads exactly the committed rows: in streams with batches that split transactions, mirrors, and every offset
range."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from headrace.client.blocking.client import READ_COMMITTED
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.pipelines.connectors.mirror import load_mirror, mirror_run
from tests.pipelines.conftest import Cluster
from tests.support.committed_readers import assert_readers_agree, truth
from tests.support.transaction_logs import TransactionLog

_COMMITTED = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
_names = itertools.count()


def skipped_log(cluster: Cluster) -> TransactionLog:
    """10 committed, 10 aborted, 10 committed records of one producer, 10 plain ones, 10 in an open transaction."""
    log = TransactionLog(cluster.client, (cluster.topic(), 0), seed=1)
    producer = log.producers[0]
    for commit in (True, False, True):
        producer.write(log.records(10))
        log.end_transaction(producer, commit=commit)
    log.write_plain(10)
    producer.write(log.records(10))
    return log


def random_log(cluster: Cluster, seed: int) -> TransactionLog:
    log = TransactionLog(cluster.client, (cluster.topic(), 0), seed)
    log.work(18)
    log.end_all()
    log.work(4)
    return log


def streamed(spark: Any, given: dict[str, str], checkpoint: Path) -> list[int]:
    """The offsets that a stream reads in small batches."""
    table = f"committed_rows_{next(_names)}"
    rows = spark.readStream.format("headrace").options(**given).load().select("offset")
    sink = rows.writeStream.format("memory").queryName(table).option("checkpointLocation", str(checkpoint))
    sink.trigger(availableNow=True).start().awaitTermination()
    return [row.offset for row in spark.table(table).collect()]


def test_stream_of_small_batches_has_every_committed_row(
    spark: Any, official_jars: list[Path], cluster: Cluster, tmp_path: Path
) -> None:
    log = skipped_log(cluster)
    visible = log.visible(log.settle())
    assert len(visible) == 30
    given = cluster.options(subscribe=log.partition[0], maxOffsetsPerTrigger="7", **_COMMITTED)
    assert streamed(spark, given, tmp_path / "checkpoint") == visible
    for format_ in ("headrace", "kafka") if official_jars else ("headrace",):
        rows = spark.read.format(format_).options(**given).load().select("offset").collect()
        assert sorted(row.offset for row in rows) == visible, format_


def test_every_range_of_a_log_of_apache_kafka(apache: Cluster) -> None:
    for log in (skipped_log(apache), random_log(apache, 5)):
        stable = log.settle()
        topic = log.partition[0]
        visible = truth(apache.bootstrap, topic, stable)
        assert visible == log.visible(stable)
        assert_readers_agree(apache.bootstrap, apache.client, topic, visible, stable)


def test_a_mirror_copies_every_committed_record(spark: Any, headrace: Cluster, tmp_path: Path) -> None:
    log = random_log(headrace, 6)
    topic = log.partition[0]
    stable = log.settle()
    settings = FetchSettings(isolation=READ_COMMITTED)
    originals = list(fetched_records(headrace.client, (topic, 0), 0, stable, settings))
    assert [record.offset for record in originals] == truth(headrace.bootstrap, topic, stable)
    file = tmp_path / "mirror.yml"
    both = f"{{bootstrap: '{headrace.bootstrap}'}}"
    file.write_text(
        f"name: m{next(_names)}\nsource: {both}\ntarget: {both}\ntopics: '{topic}'\nrename: 'copy.{{topic}}'\n"
    )
    run = mirror_run(load_mirror(file), spark, once=True, report=lambda _: None)
    run.start()
    run.supervise()
    copy = (f"copy.{topic}", 0)
    end = headrace.client.list_offsets({copy: -1}, isolation=READ_COMMITTED)[copy]
    copies = fetched_records(headrace.client, copy, 0, end, settings)
    assert [(r.key, r.value, r.timestamp_ms) for r in copies] == [(r.key, r.value, r.timestamp_ms) for r in originals]
