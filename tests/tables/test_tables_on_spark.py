"""Tables run by Spark hold exactly the committed records of their topics, whatever happened to the runs before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import pipeline_run
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import load_spec
from headrace.records.builder import Record
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.first_columns import first_columns
from headrace.tables.lake_table import FORMATS, ICEBERG, LakeTable
from headrace.tables.table_logs import log_of
from headrace.tables.table_run import prepare
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.registry import registry
from tests.tables import copy_job
from tests.tables.conftest import T0_MS, Brokers, orders

pytestmark = pytest.mark.needs("java")


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


def run_once(directory: Path, spark: Any, *, isolated: bool = False) -> None:
    spec = load_spec(directory)
    prepare(spec)
    running = pipeline_run(directory, spec, spark, once=True, report=lambda _: None)
    running.isolated = isolated
    running.start()
    running.supervise()


def rows_of(table: LakeTable) -> list[tuple[Any, ...]]:
    found = log_of(table).open().dataset().to_table().to_pylist()
    return sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in found)


def test_tables_equal_an_independent_read(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    """All tables of a directory in one run: formats, by day, own columns, upsert, no backfill."""
    directory = tmp_path / "tables"
    by_day = {"partition_by": "day(timestamp)"}
    topics = {brokers.topic(2): {"format": form, **by_day} for form in ("delta", "iceberg")}
    mapped = {brokers.topic(2): {"format": "delta", "mode": "upsert-by-key"}}
    chosen = brokers.topic(1)
    for topic in topics:
        for partition in range(2):
            brokers.write(topic, orders(40), partition=partition)
            brokers.write_transaction(topic, orders(10), partition=partition, commit=partition == 1)
    for topic in mapped:
        brokers.write(topic, orders(30))
    brokers.write(chosen, orders(10))
    tables = {
        topic: create(brokers, spark, directory, topic, **settings) for topic, settings in (topics | mapped).items()
    }
    tables[chosen] = create(
        brokers, spark, directory, chosen, backfill="none", columns="CAST(key AS STRING) AS name, offset * 2 AS twice"
    )
    assert {item.table for item in Definitions(directory)} == set(tables.values())
    run_once(directory, spark)
    for topic in topics:
        assert rows_of(tables[topic]) == brokers.independent_read(topic)
        for row in log_of(tables[topic]).open().dataset().to_table().to_pylist():
            number = json.loads(row["value"])["id"]
            assert row["headers"] == ([{"key": "n", "value": b"%d" % number}] if number % 3 == 0 else None)
    # A second run, after new records, tombstones, and the loss of Spark's checkpoints.
    shutil.rmtree(directory / "storage")
    for topic in topics:
        brokers.write(topic, orders(7, start=40), partition=1)
    for topic in mapped:
        brokers.write(topic, orders(3, start=30))
        brokers.write(topic, [type(r)(r.key, None, (), timestamp_ms=r.timestamp_ms) for r in orders(2)])
    brokers.write(chosen, orders(4, start=10))
    run_once(directory, spark)
    for topic in topics:
        assert rows_of(tables[topic]) == brokers.independent_read(topic)
    for topic in mapped:
        latest = {key: value for _, _, key, value in brokers.independent_read(topic)}
        expected = {key: value for key, value in latest.items() if value is not None}
        assert {key: value for _, _, key, value in rows_of(tables[topic])} == expected
        assert len(rows_of(tables[topic])) == len(expected)
    found = log_of(tables[chosen]).open().dataset().to_table().to_pylist()
    assert sorted(row["twice"] for row in found) == [20, 22, 24, 26]
    assert [log_of(tables[topic]).open().partition_columns for topic in topics] == [["day"], ["day"]]


FIRST = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "item", "type": "string"}]}"""
SECOND = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "item", "type": "string"},
    {"name": "price", "type": ["null", "double"], "default": null}]}"""
THIRD = """{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "int"}]}"""


def test_typed_columns_follow_the_registry(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    """Columns appear and widen; undecodable records become dead letters; an incompatible schema stops its table, or
    sends the records to dead letters, while the other tables go on."""
    directory = tmp_path / "tables"
    with registry(brokers.bootstrap) as running:
        client = RegistryClient(running.url)
        typed = {
            brokers.topic(1): {"format": "delta"},
            brokers.topic(1): {"format": "iceberg", "incompatible": "dead-letters"},
            brokers.topic(1): {"format": "parquet", "partition_by": "day(timestamp)"},
            brokers.topic(1): {"format": "iceberg", "mode": "upsert-by-key"},
        }
        for topic in typed:
            brokers.client.create_topic(f"{topic}.dlq", 1)
            running.ask("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
            _send(brokers, client, topic, FIRST, [{"id": 1, "item": "a"}])
            brokers.write(topic, [Record(b"bad", b"not avro", (), timestamp_ms=T0_MS)])
        tables = {
            topic: create(brokers, spark, directory, topic, columns="registry", registry=running.url, **settings)
            for topic, settings in typed.items()
        }
        run_once(directory, spark)
        for topic in typed:
            _send(brokers, client, topic, SECOND, [{"id": 1 << 40, "item": "b", "price": 2.5}])
        run_once(directory, spark)
        expected = [(1, "a", None, 0), (1 << 40, "b", 2.5, 2)]
        for topic, settings in typed.items():
            rows = expected if "mode" not in settings else expected[1:]
            assert _typed_rows(tables[topic]) == rows, settings
            assert log_of(tables[topic]).offsets() == {0: 3}
            letters = brokers.independent_read(f"{topic}.dlq")
            assert [value for *_, value in letters] == [b"not avro"]
        # An incompatible version, in two of the tables; the third one gets a record that fits.
        stopped, lettered, well, *_ = typed
        for topic in (stopped, lettered):
            _send(brokers, client, topic, THIRD, [{"item": 7}])
        _send(brokers, client, well, SECOND, [{"id": 3, "item": "c", "price": None}])
        with pytest.raises(PipelineError, match="column 'item' is string and the newer schema makes it int32"):
            run_once(directory, spark, isolated=True)
        assert _typed_rows(tables[stopped]) == expected
        assert log_of(tables[stopped]).offsets() == {0: 3}
        assert _typed_rows(tables[lettered]) == expected
        assert log_of(tables[lettered]).offsets() == {0: 4}
        assert len(brokers.independent_read(f"{lettered}.dlq")) == 2
        assert _typed_rows(tables[well]) == [*expected, (3, "c", None, 3)]


def _send(brokers: Brokers, client: RegistryClient, topic: str, schema: str, values: list[dict[str, Any]]) -> None:
    encoder = RecordEncoder(client, schema=schema)
    brokers.write(topic, [Record(b"k", encoder.encode(topic, value), (), timestamp_ms=T0_MS) for value in values])


def _typed_rows(table: LakeTable) -> list[tuple[Any, ...]]:
    rows = log_of(table).open().dataset().to_table(columns=["id", "item", "price", "_offset"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: int(row[3]))


# The reader is the same for all formats, and `test_history.py` runs it without a session of Spark.
@pytest.mark.parametrize("form", FORMATS if is_long() else [ICEBERG])
def test_history_option_reads_table_and_topic(brokers: Brokers, spark: Any, tmp_path: Path, form: str) -> None:
    """Every record once, in a batch and in a stream: from the table what retention removed, from the topic what the
    table does not hold yet."""
    topic, directory = brokers.topic(2), tmp_path / "tables"
    for partition in range(2):
        brokers.write(topic, orders(30), partition=partition)
    table = create(brokers, spark, directory, topic, partition_by="partition", format=form)
    copy_job.copy(brokers.cluster, table)
    before = brokers.independent_read(topic)
    brokers.write_transaction(topic, orders(6), commit=False)
    brokers.write(topic, orders(9), partition=1)
    expected = sorted({row[:2]: row for row in [*before, *brokers.independent_read(topic)]}.values())
    brokers.delete_records(topic, 20)
    options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic, "historyDirectory": str(directory)}
    options |= {"history": "table", "includeHeaders": "true"}
    frame = spark.read.format("headrace").options(**options).load()
    found = [(r.partition, r.offset, r.key and bytes(r.key), bytes(r.value)) for r in frame.collect()]
    assert sorted(found) == expected
    assert frame.where("headers IS NOT NULL").count() == sum(row[1] % 30 % 3 == 0 for row in expected)
    # A stream begins with the table, and goes on with the topic, also after a restart and more commits of the table.
    target, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for round_ in range(2):
        stream = spark.readStream.format("headrace").options(**options).load()
        query = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start(target).awaitTermination()
        rows = spark.read.parquet(target).select("partition", "offset", "key", "value").collect()
        places = sorted((r.partition, r.offset, r.key and bytes(r.key), bytes(r.value)) for r in rows)
        assert places == expected, round_
        brokers.write(topic, orders(4), partition=round_)
        copy_job.copy(brokers.cluster, table)
        log_of(table).compact(1 << 20, 24)
        expected = sorted({row[:2]: row for row in [*expected, *brokers.independent_read(topic)]}.values())


def test_a_recreated_topic_stops_its_table(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    brokers.write(topic, orders(5))
    table = create(brokers, spark, tmp_path / "tables", topic)
    copy_job.copy(brokers.cluster, table)
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
