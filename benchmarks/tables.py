"""Tables: topic → Delta and → Iceberg beside Spark's own connector that writes Parquet from Apache Kafka, freshness,
and the cost of growth: the time of a commit and of a read against the number of commits.

The topic is read once per round by `trigger(availableNow=True)`, both sides warm, in one session, in turns. The growth
is measured as a run makes it: small files are joined after every 500 commits, which is not in the time of a commit.
`--rows growth10000` goes up to 10,000 commits and takes half an hour (`growth10000-delta`: one format); without
`--rows` it is left out. The time of a commit is also given as CPU time of the process, which other work on the machine
changes little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.pipelines import _fill as fill
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from benchmarks.sql import RECORDS as SMALL
from benchmarks.sql import fill as fill_small
from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import write_records
from headrace.pipelines.flows.spec import BOOTSTRAP
from headrace.pipelines.session import spark_session
from headrace.pipelines.spark.connector_jars import fetch_jars
from headrace.records.builder import Record
from headrace.tables.formats.table_files import OFFSET, PARTITION, file_writer
from headrace.tables.formats.table_log import DataFile, TableLog
from headrace.tables.lake_table import FORMATS, ICEBERG, LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import layout_of, log_of
from headrace.tables.table_sink import batch_writer, topic_rows

# One commit of a table takes at most a million records. The connector has no limit and takes all in one batch, too.
RECORDS, SIZE = 995_000, 200
MEASURED = 100
GROWTH = {"growth": (1, 100, 1000), "growth10000": (1, 1000, 10_000)}
ROWS = {
    "delta": Row("topic → Delta, beside the connector → Parquet", "rows/s", 1.5),
    "iceberg": Row("topic → Iceberg, beside the connector → Parquet", "rows/s", 1.5),
    "backfill": Row("backfill of 10 M small records into Delta", "rows/s"),
    "freshness": Row("record → committed row of a Delta table, default trigger, p50", "ms", higher_is_better=False),
}
PARTS = ("stream", "backfill", "freshness", "growth")
_SCHEMA = kafka_schema(binary=True)


def run(directory: Path, rounds: int = 3, parts: Collection[str] = PARTS) -> list[Row]:
    growth = []
    for part in parts:
        name, _, form = part.partition("-")
        if name in GROWTH:
            growth += _growth(directory, GROWTH[name], [form] if form else FORMATS)
    if {"stream", "backfill", "freshness"} & set(parts):
        jars = ",".join(map(str, fetch_jars(report=print)))
        spark = spark_session("bench", master="local[2]", settings={"spark.jars": jars}, quick_start=False)
        try:
            with Kafka(directory / "kafka") as kafka, Headrace(directory / "headrace") as headrace:
                spark.conf.set(BOOTSTRAP, headrace.bootstrap)
                if "stream" in parts:
                    _streams(spark, kafka, headrace, directory, rounds)
                if "backfill" in parts:
                    fill_small(headrace.bootstrap)
                    table = _table(headrace, "orders", directory / "backfill", "delta")
                    ROWS["backfill"].add("headrace", SMALL / _timed(lambda: _run_once(spark, table)))
                    assert log_of(table).open().rows() == SMALL
                if "freshness" in parts:
                    _freshness(spark, headrace, directory)
        finally:
            spark.stop()
    return [*(row for row in ROWS.values() if row.samples), *growth]


def _streams(spark: Any, kafka: Server, headrace: Server, directory: Path, rounds: int) -> None:
    for server in (kafka, headrace):
        fill(server, "lake", RECORDS, SIZE)
    for number in range(rounds + 1):
        seconds = _timed(lambda: _connector(spark, kafka, directory / f"connector-{number}"))  # noqa: B023 (at once)
        if number:
            for name in ("delta", "iceberg"):
                ROWS[name].add("apache kafka", RECORDS / seconds)
        for form in ("delta", "iceberg"):
            table = _table(headrace, "lake", directory / f"{form}-{number}", form)
            seconds = _timed(lambda: _run_once(spark, table))  # noqa: B023
            assert log_of(table).open().rows() >= RECORDS
            if number:
                ROWS[form].add("headrace", RECORDS / seconds)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _connector(spark: Any, kafka: Server, directory: Path) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "lake", "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options, includeHeaders="true").load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start(str(directory / "rows")).awaitTermination()


def _table(server: Server, topic: str, directory: Path, form: str) -> LakeTable:
    with BlockingClient(server.bootstrap) as client:
        found = client.topics([topic])[topic]
    directory.mkdir(parents=True, exist_ok=True)
    catalog = f"sqlite:///{directory}/catalog.db" if form == ICEBERG else ""
    table = LakeTable(topic, str(found.topic_id), str(directory / "rows"), format=form, catalog=catalog)
    log_of(table).create(_SCHEMA, [], dict.fromkeys(found.partitions, 0))
    return table


def _stream(spark: Any, table: LakeTable) -> Any:
    writer = topic_rows(spark, table).writeStream.foreachBatch(batch_writer(table))
    return writer.option("checkpointLocation", f"{table.path}-checkpoint")


def _run_once(spark: Any, table: LakeTable) -> None:
    _stream(spark, table).trigger(availableNow=True).start().awaitTermination()


def _freshness(spark: Any, headrace: Server, directory: Path, samples: int = 20) -> None:
    with BlockingClient(headrace.bootstrap) as client:
        client.create_topic("fresh", 1)
        table = _table(headrace, "fresh", directory / "fresh", "delta")
        log, query, found = log_of(table), _stream(spark, table).start(), []
        try:
            for number in range(samples + 3):
                began = time.perf_counter()
                write_records(client, ("fresh", 0), [Record(b"k", b"v", timestamp_ms=int(time.time() * 1000))])
                while log.offsets()[0] <= number:
                    time.sleep(0.01)
                found.append((time.perf_counter() - began) * 1000)
        finally:
            query.stop()
    ROWS["freshness"].add("headrace", statistics.median(found[3:]))


def _growth(directory: Path, commits: tuple[int, ...], formats: Collection[str]) -> list[Row]:
    """Time of a commit when the table has so many commits, and of a read of all rows: of the compacted table, and of a
    table that was written at once. The time is the mean of a hundred commits: one of them writes a checkpoint of Delta,
    and one or two remove snapshots of Iceberg."""
    rows = []
    for form in formats:
        place = directory / f"growth-{form}-{commits[-1]}"
        place.mkdir()
        catalog = f"sqlite:///{place}/catalog.db" if form == ICEBERG else ""
        table = LakeTable("grown", "id", str(place / "rows"), format=form, catalog=catalog)
        log = log_of(table)  # a run also has one for all its commits
        log.create(_SCHEMA, [], {0: 0})
        done = 0
        for target in commits:
            while done < target:
                _commit(table, log, done, 10)
                done += 1
                if done % table.compact_every == 0:
                    log.compact(table.target_size_mib << 20, table.keep_hours)
            clocks = {"": time.perf_counter, ", CPU time": time.process_time}
            times: dict[str, list[float]] = {words: [] for words in clocks}
            for _ in range(MEASURED):
                began = {words: clock() for words, clock in clocks.items()}
                _commit(table, log, done, 10)
                done += 1
                for words, clock in clocks.items():
                    times[words].append(clock() - began[words])
            for words, found in times.items():
                row = Row(f"{form}: commit after {target:,} commits{words}", "ms", higher_is_better=False)
                row.add("headrace", statistics.fmean(found) * 1000)
                rows.append(row)
            print(*(f"{row.name}: {row.samples}" for row in rows[-2:]), sep="\n", flush=True)
        log.compact(128 << 20, 0)
        fresh = LakeTable("fresh", "id", str(place / "fresh"), format=form, catalog=catalog)
        log_of(fresh).create(_SCHEMA, [], {0: 0})
        _commit(fresh, log_of(fresh), 0, done * 10)
        for name, which in (("compacted", table), ("freshly written", fresh)):
            row = Row(f"{form}: read of a {name} table of {done:,} commits' rows", "ms", higher_is_better=False)
            reads = [_timed(lambda: log_of(which).open().dataset().to_table()) for _ in range(5)]  # noqa: B023
            row.add("headrace", statistics.median(reads) * 1000)
            rows.append(row)
    return rows


def _commit(table: LakeTable, log: TableLog, number: int, count: int) -> None:
    first = number * 10
    offsets = list(range(first, first + count))
    batch = pa.table(
        {
            "key": [b"key"] * count,
            "value": [b"value"] * count,
            "headers": pa.nulls(count, _SCHEMA.field("headers").type),
            "topic": [table.topic] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": offsets,
            "timestamp": pa.array([o * 1000 for o in offsets], pa.timestamp("us", tz="UTC")),
        },
        schema=_SCHEMA,
    )
    placed = batch.append_column(PARTITION, batch["partition"]).append_column(OFFSET, batch["offset"])
    before = log.offsets()
    (written,) = file_writer(layout_of(table, _SCHEMA), before)(iter(placed.to_batches()))
    (row,) = written.to_pylist()
    log.append([DataFile(row["path"], row["size"], row["rows"], {}, row["stats"])], {0: offsets[-1] + 1}, before, 1)
