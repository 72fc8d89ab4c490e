"""Tables in a real HDFS, while one of its two DataNodes is dead."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.flows.materialized_views import write_views
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.lake_table import LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.support.hdfs import Hdfs
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders
from tests.tables.test_tables_on_spark import rows_of, run_once

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.needs("mvn"),
    pytest.mark.skipif(not is_long(), reason="long: a download of 60 MB and three JVM services"),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


def test_spark_writes_tables_in_hdfs(brokers: Brokers, hdfs: Hdfs, spark: Any, tmp_path: Path) -> None:
    """The driver writes with the JVM of its session, the Python workers of the tasks with JVMs of their own. One
    DataNode is dead in the second run."""
    directory, tables = tmp_path / "tables", list[LakeTable]()
    for settings in ({"format": "delta"}, {"format": "iceberg"}, {"format": "delta", "mode": "upsert-by-key"}):
        topic = brokers.topic(1)
        found = topic_metadata(brokers.client, topic)
        catalog = f"sqlite:///{tmp_path}/catalog.db" if settings["format"] == "iceberg" else ""
        path = f"{hdfs.url}/spark/{topic}"
        table = LakeTable(topic, str(found.topic_id), path, catalog=catalog, **settings)  # type: ignore[arg-type]
        log_of(table).create(kafka_schema(binary=True), [], first_offsets(brokers.client, found, "all", None))
        Definitions(directory).add(table, brokers.bootstrap)
        tables.append(table)
    for number in range(2):
        for table in tables:
            brokers.write(table.topic, orders(20, start=20 * number))
        run_once(directory, spark)
        if number == 0:
            hdfs.kill_a_data_node()
    for table in tables:
        expected = brokers.independent_read(table.topic)
        if table.mode == "upsert-by-key":
            expected = sorted({row[2]: row for row in expected}.values())
        assert rows_of(table) == expected, f"{table.format}, {table.mode}"


def test_a_materialized_view_of_a_pipeline_is_exchanged_in_hdfs(hdfs: Hdfs, spark: Any, tmp_path: Path) -> None:
    spec = PipelineSpec(tmp_path, "shop", f"{hdfs.url}/shop", None, {}, ())
    counts = iter((3, 5))
    item = types.SimpleNamespace(
        flow=types.SimpleNamespace(func=lambda: spark.range(next(counts))),
        target=types.SimpleNamespace(name="numbers", format=None),
    )
    spark.sql(f"CREATE TABLE numbers (id BIGINT) USING parquet LOCATION '{spec.storage_uri('tables', 'numbers')}'")
    for rows in (3, 5):
        write_views(spark, spec, [item], ["numbers"])  # type: ignore[list-item]
        assert spark.table("numbers").count() == rows
    spark.sql("DROP TABLE numbers")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_in_hdfs_equals_its_topic(brokers: Brokers, hdfs: Hdfs, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(2)
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{tmp_path}/catalog.db" if form == "iceberg" else ""
    table = LakeTable(topic, str(found.topic_id), f"{hdfs.url}/lake/{topic}", format=form, catalog=catalog)
    log = log_of(table)
    log.create(kafka_schema(binary=True), [], first_offsets(brokers.client, found, "all", None))
    for partition in range(2):
        brokers.write(topic, orders(20), partition=partition)
        copy_job.copy(brokers.cluster, table)
        if partition == 0:
            hdfs.kill_a_data_node()
    log.compact(1 << 20, 24)
    copy_job.copy(brokers.cluster, table)
    rows = log.open().dataset().to_table().to_pylist()
    assert sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in rows) == brokers.independent_read(topic)
