"""Rows go to the tasks that write files without a limit for Spark's batches as long as they are small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from headrace.pipelines.flows.spec import BOOTSTRAP
from headrace.records.builder import Record
from headrace.tables import table_sink
from headrace.tables.lake_table import LakeTable
from headrace.tables.small_rows import BYTES_LIMIT, LARGEST_BYTES, ROWS_LIMIT, checked, is_large_row, without_limit
from headrace.tables.table_logs import log_of
from headrace.tables.table_sink import TableWriter, topic_rows
from tests.tables.conftest import T0_MS, Brokers
from tests.tables.test_tables_on_spark import create

pytestmark = pytest.mark.needs("java")


def values(table: LakeTable) -> list[int]:
    return sorted(len(value) for value in log_of(table).open().dataset().to_table()["value"].to_pylist())


def copy(spark: Any, table: LakeTable, writer: TableWriter, directory: Path) -> None:
    stream = topic_rows(spark, table).writeStream.foreachBatch(writer.write)
    stream.option("checkpointLocation", str(directory)).trigger(availableNow=True).start().awaitTermination()


def test_a_large_row_is_written_with_the_limit(
    brokers: Brokers, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sink, "_MANY", 1)
    topic, limit = brokers.topic(1), spark.conf.get(BYTES_LIMIT)
    table = create(brokers, spark, tmp_path / "tables", topic)
    writer, sizes = TableWriter(table), [1, 100, 5000]
    spark.conf.set(BOOTSTRAP, brokers.bootstrap)
    brokers.write(topic, [Record(b"k", b"x" * size, timestamp_ms=T0_MS) for size in sizes])
    copy(spark, table, writer, tmp_path / "checkpoint")
    assert writer._are_rows_small
    assert writer._are_rows_many
    assert values(table) == sizes
    sizes += [7, LARGEST_BYTES + 1, 300_000]
    brokers.write(topic, [Record(b"k", b"x" * size, timestamp_ms=T0_MS) for size in sizes[3:]])
    copy(spark, table, writer, tmp_path / "checkpoint")
    assert not writer._are_rows_small
    assert values(table) == sorted(sizes)
    assert spark.conf.get(BYTES_LIMIT) == limit


@pytest.mark.parametrize(("size", "is_refused"), [(LARGEST_BYTES - 1, False), (LARGEST_BYTES, True)])
def test_all_columns_of_a_row_count(spark: Any, size: int, is_refused: bool) -> None:
    rows = spark.createDataFrame([(1, b"\0" * size, "y"), (2, None, "ü")], "n int, key binary, value string")
    small = checked(rows, "n")
    assert small is not None
    if is_refused:
        with pytest.raises(PySparkException) as caught:
            small.collect()
        assert is_large_row(caught.value)
    else:
        assert [row.n for row in small.collect()] == [1, 2]


@pytest.mark.parametrize("kind", ["array<string>", "map<string, int>", "struct<a: string>", "variant"])
def test_columns_without_a_simple_size_keep_the_limit(spark: Any, kind: str) -> None:
    rows = spark.range(1).select(f.lit(1).alias("n"), f.expr(f"CAST(null AS {kind}) AS wide"))
    assert checked(rows, "n") is None


def test_the_number_of_rows_stays_limited_and_an_error_restores_both_limits(spark: Any) -> None:
    bytes_before, rows_before = spark.conf.get(BYTES_LIMIT), spark.conf.get(ROWS_LIMIT)
    spark.conf.set(ROWS_LIMIT, "0")
    try:
        with pytest.raises(ZeroDivisionError), without_limit(spark):
            assert spark.conf.get(ROWS_LIMIT) == "10000"
            raise ZeroDivisionError
        assert (spark.conf.get(BYTES_LIMIT), spark.conf.get(ROWS_LIMIT)) == (bytes_before, "0")
    finally:
        spark.conf.set(ROWS_LIMIT, rows_before)
