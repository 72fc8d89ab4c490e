"""Tables run by Spark hold exactly the committed records of their topics, whatever happened to the runs before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipelines.connectors.connector import pipeline_run
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import load_spec
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.first_columns import first_columns
from headrace.tables.lake_table import ICEBERG, LakeTable
from headrace.tables.table_logs import log_of
from headrace.tables.table_run import prepare
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.tables.conftest import Brokers, orders

pytestmark = pytest.mark.needs("java")
KILLS = 10


@pytest.fixture(scope="module")
def spark() -> Any:
    from headrace.pipelines.session import spark_session

    session = spark_session("tables", master="local[2]")
    yield session
    session.stop()


def create(brokers: Brokers, spark: Any, directory: Path, topic: str, **settings: Any) -> LakeTable:
    found = topic_metadata(brokers.client, topic)
    backfill = settings.pop("backfill", "all")
    if settings.get("format") == ICEBERG:
        settings["catalog"] = f"sqlite:///{directory.parent}/catalog.db"
    table = LakeTable(topic, str(found.topic_id), str(directory.parent / "lake" / topic), **settings)
    starts = first_offsets(brokers.client, found, backfill, None)
    log_of(table).create(first_columns(table, lambda: spark), table.partition_columns, starts)
    Definitions(directory).add(table, brokers.bootstrap)
    return table


def run_once(directory: Path, spark: Any) -> None:
    spec = load_spec(directory)
    prepare(spec)
    running = pipeline_run(directory, spec, spark, once=True, report=lambda _: None)
    running.start()
    running.supervise()


def rows_of(table: LakeTable) -> list[tuple[Any, ...]]:
    found = log_of(table).open().dataset().to_table().to_pylist()
    return sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in found)


def test_tables_equal_an_independent_read(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    """All tables of a directory in one run: append, by day, own columns, upsert, no backfill."""
    plain, mapped, chosen = brokers.topic(3), brokers.topic(2), brokers.topic(1)
    for partition in range(3):
        brokers.write(plain, orders(40), partition=partition)
        brokers.write_transaction(plain, orders(10), partition=partition, commit=partition == 2)
    brokers.write(mapped, orders(30))
    brokers.write(chosen, orders(10))
    directory = tmp_path / "tables"
    tables = {
        plain: create(brokers, spark, directory, plain, partition_by="day(timestamp)"),
        mapped: create(brokers, spark, directory, mapped, mode="upsert-by-key"),
        chosen: create(
            brokers,
            spark,
            directory,
            chosen,
            backfill="none",
            columns="CAST(key AS STRING) AS name, offset * 2 AS twice",
        ),
    }
    assert {item.table for item in Definitions(directory)} == set(tables.values())
    run_once(directory, spark)
    assert rows_of(tables[plain]) == brokers.independent_read(plain)
    # A second run, after new records, tombstones, and the loss of Spark's checkpoints.
    shutil.rmtree(directory / "storage")
    brokers.write(plain, orders(7, start=40), partition=1)
    brokers.write(mapped, orders(3, start=30))
    brokers.write(mapped, [type(r)(r.key, None, (), timestamp_ms=r.timestamp_ms) for r in orders(2)])
    brokers.write(chosen, orders(4, start=10))
    run_once(directory, spark)
    run_once(directory, spark)
    assert rows_of(tables[plain]) == brokers.independent_read(plain)
    latest: dict[bytes | None, bytes | None] = {}
    for _, _, key, value in brokers.independent_read(mapped):
        latest[key] = value
    expected = {key: value for key, value in latest.items() if value is not None}
    assert {key: value for _, _, key, value in rows_of(tables[mapped])} == expected
    assert len(rows_of(tables[mapped])) == len(expected)
    found = DeltaTable(tables[chosen].path).to_pyarrow_table().to_pylist()
    assert sorted(row["twice"] for row in found) == [20, 22, 24, 26]
    assert DeltaTable(tables[plain].path).metadata().partition_columns == ["day"]


def test_history_option_reads_table_and_topic(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    """Every record once: from the table what retention removed, from the topic what the table does not hold yet."""
    topic, directory = brokers.topic(2), tmp_path / "tables"
    for partition in range(2):
        brokers.write(topic, orders(30), partition=partition)
    create(brokers, spark, directory, topic, partition_by="partition")
    run_once(directory, spark)
    before = brokers.independent_read(topic)
    brokers.write_transaction(topic, orders(6), commit=False)
    brokers.write(topic, orders(9), partition=1)
    expected = sorted({row[:2]: row for row in [*before, *brokers.independent_read(topic)]}.values())
    brokers.delete_records(topic, 20)
    options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic, "historyDirectory": str(directory)}
    frame = spark.read.format("headrace").options(**options, includeHeaders="true").option("history", "table").load()
    found = [(r.partition, r.offset, r.key and bytes(r.key), bytes(r.value)) for r in frame.collect()]
    assert sorted(found) == expected
    assert frame.where("headers IS NOT NULL").count() == sum(row[1] % 30 % 3 == 0 for row in expected)


def test_a_recreated_topic_stops_its_table(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    brokers.write(topic, orders(5))
    table = create(brokers, spark, tmp_path / "tables", topic)
    run_once(tmp_path / "tables", spark)
    before = rows_of(table)
    brokers.client.refresh()
    controller = brokers.client.broker(brokers.client._map.controller)
    controller.call("delete_topics", {"topic_names": [topic], "timeout": 30_000})
    wait_for(lambda: topic not in brokers.client.topics([topic]), "the topic is gone")
    brokers.client.create_topic(topic, 1, configs={"retention.ms": "-1"})
    brokers.write(topic, orders(9))
    with pytest.raises(PipelineError, match="was deleted and created again"):
        run_once(tmp_path / "tables", spark)
    assert rows_of(table) == before


@pytest.mark.skipif(not is_long(), reason="long: ten starts of Spark")
def test_ten_killed_runs_lose_and_double_nothing(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    """`headrace tables run` is killed at any moment, its checkpoints are deleted, and records keep coming."""
    topic, mapped, directory = brokers.topic(2), brokers.topic(1), tmp_path / "tables"
    table = create(brokers, spark, directory, topic)
    keyed = create(brokers, spark, directory, mapped, mode="upsert-by-key")
    log = log_of(table)
    command = [sys.executable, "-m", "headrace.cli", "tables", "run", "-d", str(directory)]
    written = 0
    for kill in range(KILLS):
        with (tmp_path / "out.txt").open("ab") as out:
            running = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            version = log.open().version
            for _ in range(1 + kill % 3):
                for partition in range(2):
                    brokers.write_transaction(
                        topic, orders(20, start=written), partition=partition, commit=kill % 2 == 0
                    )
                    brokers.write(topic, orders(15, start=written), partition=partition)
                brokers.write(mapped, orders(20, start=written, keys=7))
                written += 20
                wait_for(lambda: log.open().version > version or running.poll() is not None, "a commit", within=240)  # noqa: B023
                assert running.poll() is None, (tmp_path / "out.txt").read_text()
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        if kill % 2:
            shutil.rmtree(directory / "storage")
    assert subprocess.run([*command, "--once"], check=False, timeout=300).returncode == 0
    assert rows_of(table) == brokers.independent_read(topic)
    latest = {key: value for _, _, key, value in brokers.independent_read(mapped)}
    assert {key: value for _, _, key, value in rows_of(keyed)} == latest
    assert len(rows_of(keyed)) == len(latest)
