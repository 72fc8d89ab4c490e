"""Spark with `format("headrace")` on Headrace and with Spark's own connector on Apache Kafka, in one session, in turns.

Both sides run warm, on two cores, with the JVM's full compiler. Latency is the time from a record's timestamp until a
reader of the output topic has it.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from headrace.client.blocking.client import LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.client.blocking.produce import BatchProducer, Section, write_records
from headrace.pipelines.session import spark_session
from headrace.pipelines.spark.connector_jars import fetch_jars
from headrace.pipelines.task_sink import written_by_tasks
from headrace.records.batch import HEADER_BYTES, batches
from headrace.records.builder import Record, build_batch
from headrace.records.reader import read_records

ROWS = {
    "1k": Row("batch read of 1 KB records → noop", "MB/s", 1.5),
    "100b": Row("batch read of 100 B records → noop", "rows/s", 2.5),
    "sink": Row("exactly-once sink beside the connector's at-least-once sink, 100 B", "rows/s", 0.7),
    "p50": Row("micro-batch latency, flat map, p50", "ms", 1.1, higher_is_better=False),
    "p99": Row("micro-batch latency, flat map, p99", "ms", 1.1, higher_is_better=False),
    "tasks": Row("the same, written by the tasks as `pipeline run` does, p50", "ms", higher_is_better=False),
    "once": Row("the same, written exactly once, p50", "ms", higher_is_better=False),
    "count": Row("word count, default trigger, p50", "ms", 1.0, higher_is_better=False),
    "realtime": Row("real-time mode (the connector on both), p50", "ms", 1.0, higher_is_better=False),
}
# Names for `--rows`.
PARTS = ("batch", "flat", "tasks", "once", "count", "realtime")
_FORMATS = {"headrace": "headrace", "apache kafka": "kafka"}
_KB_RECORDS, _SMALL_RECORDS = 300_000, 1_500_000


def run(directory: Path, rounds: int = 3, parts: Collection[str] = PARTS) -> list[Row]:
    jars = ",".join(map(str, fetch_jars(report=print)))
    spark = spark_session("bench", master="local[2]", settings={"spark.jars": jars}, quick_start=False)
    try:
        with Kafka(directory / "kafka") as kafka, Headrace(directory / "headrace") as headrace:
            servers = [kafka, headrace]
            for server in servers:
                if "batch" in parts:
                    _fill(server, "kb", _KB_RECORDS, 1000)
                    _fill(server, "small", _SMALL_RECORDS, 100)
                    _batches(spark, server, warm_up=True)
                _warm_streams(spark, server, directory / f"{server.name}-warm", parts)
            for number in range(rounds):
                for server in servers:
                    if "batch" in parts:
                        _batches(spark, server)
                    _latencies(spark, server, directory / f"{server.name}-{number}", number, parts)
    finally:
        spark.stop()
    return [row for row in ROWS.values() if row.samples]


def _fill(server: Server, topic: str, count: int, size: int) -> None:
    client = BlockingClient(server.bootstrap)
    client.create_topic(topic, 2)
    producer = BatchProducer(client)
    now, per_batch = int(time.time() * 1000), max(900_000 // (size + 20), 1)
    records = [Record(b"%08d" % i, b"x" * (size - 8), timestamp_ms=now) for i in range(per_batch)]
    section = build_batch(records)[HEADER_BYTES:]
    for number in range(-(-count // per_batch)):
        producer.send((topic, number % 2), Section(section, per_batch, now, now))
    producer.flush()
    client.close()


def _options(server: Server, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": server.bootstrap, **more}


def _batches(spark: Any, server: Server, *, warm_up: bool = False) -> None:
    kind = _FORMATS[server.name]
    for topic, row, scale in (("kb", "1k", 1000 / 1e6), ("small", "100b", 1.0)):
        frame = spark.read.format(kind).options(**_options(server, subscribe=topic)).load()
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
        if not warm_up:
            ROWS[row].add(server.name, (_KB_RECORDS if topic == "kb" else _SMALL_RECORDS) * scale / seconds)
    count = 400_000
    rows = spark.range(count).selectExpr("string(id) AS key", "rpad(string(id), 100, 'x') AS value").coalesce(2)
    client = BlockingClient(server.bootstrap)
    client.create_topic("written", 2)
    client.close()
    began = time.perf_counter()
    rows.write.format(kind).options(**_options(server, topic="written")).mode("append").save()
    if not warm_up:
        ROWS["sink"].add(server.name, count / (time.perf_counter() - began))


def _warm_streams(spark: Any, server: Server, directory: Path, parts: Collection[str]) -> None:
    """Runs one query of each kind without measuring, so that code is compiled and Python workers are started."""
    kind = _FORMATS[server.name]
    at_least = {} if kind == "kafka" else {"mode": "at-least-once"}
    if {"flat", "tasks", "once"} & set(parts):
        _latency(spark, server, directory / "flat", "warm-flat", kind, at_least)
    if "count" in parts:
        _latency(spark, server, directory / "count", "warm-count", kind, at_least, count=True)


def _latencies(spark: Any, server: Server, directory: Path, number: int, parts: Collection[str]) -> None:
    kind = _FORMATS[server.name]
    at_least = {} if kind == "kafka" else {"mode": "at-least-once"}

    def median(part: str, sink: dict[str, str], kind: str = kind, **how: bool) -> list[float]:
        # The first batches of a stream compile code. The second half of the samples counts.
        times = _latency(spark, server, directory / part, f"{part}-{number}", kind, sink, **how)
        ROWS["p50" if part == "flat" else part].add(server.name, statistics.median(times))
        return times

    if "flat" in parts:
        flat = median("flat", at_least)
        ROWS["p99"].add(server.name, statistics.quantiles(flat, n=100)[98])
        if kind == "kafka":
            # The connector has only this sink.
            ROWS["tasks"].add(server.name, statistics.median(flat))
    if "tasks" in parts and kind == "headrace":
        median("tasks", at_least, by_tasks=True)
    if "once" in parts and kind == "headrace":
        median("once", {})
    if "count" in parts:
        median("count", at_least, count=True)
    if "realtime" in parts:
        median("realtime", {}, kind="kafka", realtime=True)


def _latency(
    spark: Any,
    server: Server,
    directory: Path,
    name: str,
    kind: str,
    sink: dict[str, str],
    *,
    count: bool = False,
    by_tasks: bool = False,
    realtime: bool = False,
) -> list[float]:
    client = BlockingClient(server.bootstrap)
    source, target = f"{name}-in", f"{name}-out"
    client.create_topic(source, 1)
    client.create_topic(target, 1)
    stream = (
        spark.readStream.format(kind).options(**_options(server, subscribe=source, startingOffsets="earliest")).load()
    )
    words = stream.selectExpr("explode(split(string(value), ' ')) AS value")
    if count:
        words = words.groupBy("value").count().selectExpr("value AS key", "value")
    given = _options(server, topic=target, **sink)
    # Spark allows update mode only with its own sinks, so ours writes in the query's tasks then.
    by_tasks = kind == "headrace" and (count or by_tasks)
    writer = written_by_tasks(words, given) if by_tasks else words.writeStream.format(kind).options(**given)
    writer = writer.option("checkpointLocation", str(directory)).outputMode("update" if count or realtime else "append")
    if realtime:
        writer = writer.trigger(realTime="5 minutes")
    query = writer.start()
    try:
        return _drive(server, client, source, target, samples=120)
    finally:
        query.stop()
        client.close()


def _drive(server: Server, client: BlockingClient, source: str, target: str, *, samples: int) -> list[float]:
    """Sends a word that is its own timestamp every 60 ms and reads the output. Milliseconds from sending to reading.

    It waits for the first word: Spark stops Python workers after an idle minute, and the backlog until new ones run
    would distort the result."""
    seen: list[float] = []
    awake, done = threading.Event(), threading.Event()

    def watch() -> None:
        reader = BlockingClient(server.bootstrap)
        at, pair = 0, (target, 0)
        settings = FetchSettings(isolation=READ_COMMITTED, max_wait_ms=500, stall_timeout_s=120)
        while not done.is_set() and len(seen) <= samples:
            for chunk in FetchStream(reader, pair, at, at + 1, settings):
                now = time.time()
                at = chunk.next_offset
                for batch in batches(chunk.records):
                    if not batch.is_control:
                        seen.extend((now - float(record.value or 0)) * 1000 for record in read_records(batch))
                        awake.set()
        reader.close()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    def send() -> None:
        now = time.time()
        write_records(client, (source, 0), [Record(None, repr(now).encode(), timestamp_ms=int(now * 1000))])

    send()
    awake.wait(60)
    for _ in range(samples):
        send()
        time.sleep(0.06)
    watcher.join(60)
    done.set()
    if len(seen) < samples // 2:
        end = client.list_offsets({(target, 0): LATEST})
        raise RuntimeError(f"{target}: {len(seen)} of {samples} words arrived (end {end})")
    return seen[len(seen) // 2 :]
