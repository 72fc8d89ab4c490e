"""`headrace sql --engine spark`, `--follow` and CREATE PIPELINE: names and rows of the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.pipelines.connectors.connector import pipeline_run
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import load_spec
from headrace.tables.spark_sql.relations import SparkRelations, topics_in, with_view_names
from headrace.tables.spark_sql.saved_pipeline import SavedPipeline, is_create_pipeline
from headrace.tables.spark_sql.statements import SparkStatement
from headrace.tables.sql_errors import SqlError
from headrace.tables.sql_session import SqlSession
from tests.support.clock import wait_for
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders
from tests.tables.test_tables_on_spark import create

pytestmark = pytest.mark.needs("java")


def test_names_of_relations_become_names_of_views() -> None:
    topics = ["orders", "orders-eu"]
    statement = """SELECT 'orders.live' -- orders.history
        FROM orders o JOIN "orders-eu".live USING (key) JOIN Orders.History h USING (key)"""
    assert topics_in(statement, [*topics, "other"]) == topics
    text, used = with_view_names(statement, topics)
    assert used == {("orders", ""), ("orders-eu", "live"), ("orders", "history")}
    assert "SELECT 'orders.live' -- orders.history" in text
    assert 'FROM "orders" o JOIN "orders-eu live" USING (key) JOIN "orders history" h' in text


@pytest.mark.parametrize(
    "statement", ["CREATE PIPELINE x", "CREATE PIPELINE AS SELECT 1", "create pipeline a b AS SELECT 1"]
)
def test_wrong_create_pipeline_is_refused(statement: str) -> None:
    assert is_create_pipeline(statement)
    with pytest.raises(SqlError, match="CREATE PIPELINE needs a name and a query"):
        SavedPipeline.parse(statement)


@pytest.fixture
def relations(brokers: Brokers, spark: Any, tmp_path: Path) -> SparkRelations:
    return SparkRelations(spark, {"kafka.bootstrap.servers": brokers.bootstrap}, tmp_path / "tables")


def _rows(relations: SparkRelations, statement: str) -> list[dict[str, Any]]:
    schema, batches = SparkStatement(relations, statement).rows()
    return pa.Table.from_batches(batches, schema).to_pylist()  # type: ignore[no-any-return]


def test_both_engines_give_the_same_rows(
    brokers: Brokers, spark: Any, relations: SparkRelations, tmp_path: Path
) -> None:
    topic = brokers.topic(2)
    for partition in range(2):
        brokers.write(topic, orders(30), partition=partition)
    table = create(brokers, spark, tmp_path / "tables", topic, format="iceberg", partition_by="partition")
    copy_job.copy(brokers.cluster, table)
    brokers.write(topic, orders(9, start=30))
    brokers.delete_records(topic, 12)
    statements = [
        f'SELECT partition, "offset", key, value FROM {topic} ORDER BY ALL',
        f"SELECT key, count(*) AS n, max(timestamp) AS last FROM {topic}.live GROUP BY key ORDER BY key",
        f'SELECT partition, min("offset") AS first, count(*) AS n FROM {topic}.history GROUP BY ALL ORDER BY 1',
    ]
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        for statement in statements:
            answer = session.query(statement)
            assert answer is not None
            assert _rows(relations, statement) == answer.read().rows(), statement
    with pytest.raises(SqlError, match=r"line 1, column .*get_json_object"):
        _rows(relations, f"SELECT nix->>'amount' FROM {topic}")
    with pytest.raises(SqlError, match="line 2, column"):
        _rows(relations, f"SELECT nothing\nFROM {topic} WHERE missing = 1")
    with pytest.raises(PipelineError, match="has no table in"):
        _rows(SparkRelations(spark, relations.options, tmp_path / "none"), f"SELECT * FROM {topic}.history")


def test_a_followed_statement_prints_rows_as_they_come(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    brokers.write(topic, orders(10))
    options = {"kafka.bootstrap.servers": brokers.bootstrap}
    relations = SparkRelations(spark, options, tmp_path / "tables", streaming=True, watermark="10 minutes")
    found: dict[str, int] = {}
    statement = f"SELECT key, count(*) AS n FROM {topic} GROUP BY key"
    query = SparkStatement(relations, statement).follow(
        lambda rows: found.update({row["key"]: row["n"] for row in rows.to_pylist()})
    )
    try:
        wait_for(lambda: found == {f"k{i}": 2 for i in range(5)}, lambda: f"the first groups: {found}")
        brokers.write(topic, orders(1, start=10))
        wait_for(lambda: found.get("k0") == 3, lambda: f"the changed group: {found}")
    finally:
        query.stop()
    with pytest.raises(SqlError, match="reads none"):
        SparkStatement(relations, "SELECT 1").follow(lambda _: None)


def test_a_saved_statement_is_a_pipeline(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    topic, target = brokers.topic(1), brokers.topic(1)
    brokers.write(topic, orders(6))
    saved = SavedPipeline.parse(f'CREATE PIPELINE {target} AS\nSELECT key, value FROM {topic} WHERE "offset" >= 4;')
    directory = saved.write(tmp_path, brokers.bootstrap)
    with pytest.raises(PipelineError, match="is not empty"):
        saved.write(tmp_path, brokers.bootstrap)
    running = pipeline_run(directory, load_spec(directory), spark, once=True, report=lambda _: None)
    running.start()
    running.supervise()
    records = [(key, json.loads(value or b"")) for _, _, key, value in brokers.independent_read(target)]
    assert [key for key, _ in records] == [b"k4", b"k0"]
    assert json.loads(records[0][1]["value"]) == {"id": 4, "amount": 4.5}
