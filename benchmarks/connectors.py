"""Connectors from a topic of JSON records into a PostgreSQL table and into a Delta table, written by Spark's tasks.

A run decodes JSON and writes with the ledger: one `--once` run in a warm session on two cores. The database runs on the
same two cores, with `fsync` on. The rows about `--lite` are one process each: from its start until it has read the
checkpoint and says so, and its resident memory after it has copied the topic. `pipeline test` is the whole command with
the example of a template: a start of Spark and of a broker, and one test.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.servers import Headrace
from headrace.client.blocking.client import LATEST, BlockingClient
from headrace.client.blocking.produce import BatchProducer, Section
from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.session import spark_session
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from tests.pipelines.postgres import running_postgres

ROWS = {
    "insert": Row("topic → PostgreSQL, new rows by key", "rows/s"),
    "update": Row("topic → PostgreSQL, the same keys again", "rows/s"),
    "append": Row("topic → PostgreSQL, without a key", "rows/s"),
    "delta": Row("topic → Delta table", "rows/s"),
    "lite": Row("--lite: topic → topic", "rows/s"),
    "lite start": Row("--lite: ready after", "s", higher_is_better=False),
    "lite memory": Row("--lite: memory, columns only", "MB", higher_is_better=False),
    "lite sql memory": Row("--lite: memory, with an expression in DuckDB", "MB", higher_is_better=False),
    "test": Row("headrace pipeline test, one test", "s", higher_is_better=False),
}
PARTS = ("insert", "update", "append", "delta", "lite", "test")
_COUNT = 200_000
# All in one batch, as a connector without `maxOffsetsPerTrigger` reads them.
_PER_BATCH = _COUNT


def run(directory: Path, rounds: int = 3, parts: Collection[str] = PARTS) -> list[Row]:
    if "test" in parts:
        for number in range(rounds):
            ROWS["test"].add("headrace", _pipeline_test(directory / f"orders{number}"))
    on_spark = [part for part in parts if part not in ("lite", "test")]
    if not on_spark and "lite" not in parts:
        return [ROWS["test"]]
    with Headrace(directory / "headrace") as server:
        _fill(server.bootstrap, "orders")
        if "lite" in parts:
            for number in range(rounds):
                _lite(server.bootstrap, directory, number)
        if on_spark:
            _on_spark(server.bootstrap, directory, rounds, on_spark)
    return [row for row in ROWS.values() if row.samples]


def _on_spark(bootstrap: str, directory: Path, rounds: int, parts: Collection[str]) -> None:
    spark = spark_session("bench", master="local[2]", quick_start=False)
    try:
        with running_postgres("fsync=on") as url:
            for number in range(rounds + 1):
                _round(spark, bootstrap, url, directory, number, parts, warm_up=number == 0)
    finally:
        spark.stop()


def _pipeline_test(directory: Path) -> float:
    program = [sys.executable, "-m", "headrace.cli", "pipeline"]
    subprocess.run([*program, "init", str(directory), "--template", "json"], check=True, capture_output=True)
    began = time.perf_counter()
    subprocess.run([*program, "test", str(directory)], check=True, capture_output=True)
    return time.perf_counter() - began


def _lite(bootstrap: str, directory: Path, number: int) -> None:
    client = BlockingClient(bootstrap)
    for kind, select in (("lite", "SELECT id, customer"), ("lite sql", "SELECT id, upper(customer) AS customer")):
        name = f"{kind.replace(' ', '-')}-{number}"
        client.create_topic(name, 1)
        file = directory / f"{name}.yml"
        file.write_text(
            f"name: {name}\nbootstrap: {bootstrap}\nstorage: {directory}/storage-{name}\n"
            "from:\n  topic: {name: orders, schema: 'id bigint, customer string, amount double'}\n"
            f"select: {select} FROM source\nto:\n  topic: {{name: {name}, key: id}}\n"
        )
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", "pipeline", "run", str(file), "--lite"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        process.stderr.readline()
        ready = time.perf_counter()
        pair = (name, 0)
        while client.list_offsets({pair: LATEST})[pair] < _COUNT:
            time.sleep(0.05)
        if kind == "lite":
            ROWS["lite start"].add("headrace", ready - began)
            ROWS["lite"].add("headrace", _COUNT / (time.perf_counter() - ready))
        ROWS[f"{kind} memory"].add("headrace", _resident_mb(process.pid))
        process.terminate()
        process.wait(60)
        process.stderr.close()
    client.close()


def _resident_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _fill(bootstrap: str, topic: str) -> None:
    client = BlockingClient(bootstrap)
    client.create_topic(topic, 2)
    producer = BatchProducer(client)
    now = int(time.time() * 1000)
    for number, begin in enumerate(range(0, _COUNT, 5_000)):
        records = [
            Record(
                b"%d" % i, b'{"id": %d, "customer": "c-%d", "amount": %d.5}' % (i, i % 997, i % 100), timestamp_ms=now
            )
            for i in range(begin, begin + 5_000)
        ]
        producer.send((topic, number % 2), Section(build_batch(records)[HEADER_BYTES:], len(records), now, now))
    producer.flush()
    client.close()


def _round(
    spark: Any, bootstrap: str, url: str, directory: Path, number: int, parts: Collection[str], *, warm_up: bool
) -> None:
    with Database(url).connect() as connection:
        connection.execute("DROP TABLE IF EXISTS keyed, plain")
        columns = "(id bigint {}, customer text, amount double precision)"
        connection.execute(f"CREATE TABLE keyed {columns.format('PRIMARY KEY')}")
        connection.execute(f"CREATE TABLE plain {columns.format('')}")
    targets = {
        "insert": f"jdbc: {{url: '{url}', table: keyed, keys: id}}",
        "update": f"jdbc: {{url: '{url}', table: keyed, keys: id}}",
        "append": f"jdbc: {{url: '{url}', table: plain}}",
        "delta": f"delta: {{path: {directory}/lake-{number}}}",
    }
    for part in parts:
        name = f"{part}{number}"
        file = directory / f"{name}.yml"
        file.write_text(
            f"name: {name}\nbootstrap: {bootstrap}\nstorage: {directory}/storage-{name}\n"
            "from:\n  topic: {name: orders, schema: 'id bigint, customer string, amount double', "
            f"options: {{maxOffsetsPerTrigger: {_PER_BATCH}}}}}\n"
            f"select: SELECT id, customer, amount FROM source\nto:\n  {targets[part]}\n"
        )
        started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        began = time.perf_counter()
        started.start()
        started.supervise()
        seconds = time.perf_counter() - began
        (rows,) = [row["written"] for row in started.totals() if row["flow"] == name]
        assert rows == _COUNT, f"{part}: {rows} rows of {_COUNT}"
        if not warm_up:
            ROWS[part].add("headrace", _COUNT / seconds)
