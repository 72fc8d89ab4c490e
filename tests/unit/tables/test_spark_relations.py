"""Relations of Spark: the version of the table gives both the files and the offsets at which the topic begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from headrace.tables.definitions import Definition
from headrace.tables.formats.parquet_log import FILES, ParquetLog, data_file
from headrace.tables.formats.table_files import Layout, write_file
from headrace.tables.lake_table import PARQUET, LakeTable
from headrace.tables.spark_sql.relations import SparkRelations

SCHEMA = pa.schema([("_offset", pa.int64()), ("day", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    settings: dict[str, Any] = {"columns": "registry", "registry": "http://localhost:1", "format": PARQUET}
    made = LakeTable("orders", "id-1", str(tmp_path), **settings)
    log_of(made).create(SCHEMA, [], {0: 0})
    append(made, 0)
    return made


def log_of(table: LakeTable) -> ParquetLog:
    return ParquetLog(table.path, table.topic, table.topic_id)


def append(table: LakeTable, offset: int) -> None:
    rows = pa.table([[offset], ["Monday"]], schema=SCHEMA)
    written = write_file(Layout(table.path, SCHEMA, staging=FILES), rows)
    log_of(table).append([data_file(written)], {0: offset + 1}, {0: offset}, 0)


def test_a_commit_of_the_writer_between_topic_and_files_is_not_read_twice(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[object] = []

    def live(_: SparkRelations, _name: str, _registry: str | None, more: Mapping[str, str]) -> MagicMock:
        starts.append(json.loads(more["startingOffsets"]))
        append(table, 1)
        return MagicMock()

    monkeypatch.setattr(SparkRelations, "_live", live)
    spark = MagicMock()
    SparkRelations(spark, {})._frame("orders", "", Definition(table, Path("orders.py")))
    assert starts == [{"orders": {"0": 1}}]
    (read,) = [found for found in spark.mock_calls if found[0].endswith(".parquet")]
    assert len(read.args) == 1


def test_a_field_named_day_is_a_column(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkRelations, "_live", MagicMock())
    spark = MagicMock()
    SparkRelations(spark, {})._frame("orders", "", Definition(table, Path("orders.py")))
    assert not any(found[0].endswith(".drop") for found in spark.mock_calls)
