"""Tables in PostgreSQL and Delta that the tasks of a batch write: values, last rows of keys, repeats, left-overs."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.connectors.delta_files import delta_writer
from headrace.pipelines.connectors.staged_rows import StagedTable, copy_rows
from headrace.pipelines.connectors.targets import table_writer
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import failure_reason
from tests.support.clock import wait_for
from tests.support.names import unique

_NOW = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, datetime.UTC)


@pytest.fixture
def table(postgres: str) -> str:
    name = unique("staged").replace("-", "_")
    with psycopg.connect(postgres) as connection:
        connection.execute(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, t text, f double precision, b boolean, d numeric(10, 2), "
            "raw bytea, at timestamptz, day date, tags text[], doc jsonb)"
        )
    return name


def stages(connection: Any) -> int:
    query = "SELECT count(*) FROM pg_tables WHERE tablename LIKE '\\_headrace\\_stage%'"
    return int(connection.execute(query).fetchone()[0])


def test_every_type_arrives_as_it_was(spark: Any, postgres: str, table: str) -> None:
    columns = "id bigint, t string, f double, b boolean, d decimal(10,2), raw binary, at timestamp, day date"
    day = datetime.date(2024, 2, 29)
    rows = [
        (1, 'quoted "text", with\nlines', 1.5, True, decimal.Decimal("12.30"), b"\x00\xff", _NOW, day),
        (2, "", float("inf"), False, decimal.Decimal("-0.01"), b"", _NOW, day),
        (3, None, None, None, None, None, None, None),
        (4, "NULL", -0.0, True, decimal.Decimal("99999999.99"), b"\\N", _NOW, day),
    ]
    # Spark's session may have another time zone than UTC; the instants must not change.
    frame = spark.createDataFrame(rows, columns).repartition(3)
    table_writer(Database(postgres), table, ["id"], unique("t"))(frame, 0)
    with psycopg.connect(postgres) as connection:
        found = connection.execute(f"SELECT id, t, f, b, d, raw, at, day FROM {table} ORDER BY id").fetchall()
        assert stages(connection) == 0
    assert found == rows
    nested = spark.createDataFrame(
        [(5, ["a", None], {"k": "v"})], "id bigint, tags array<string>, doc map<string,string>"
    )
    table_writer(Database(postgres), table, ["id"], unique("t"))(
        nested.selectExpr("id", "tags", "to_json(doc) AS doc"), 0
    )
    with psycopg.connect(postgres) as connection:
        query = f"SELECT tags, doc FROM {table} WHERE id = 5"
        assert connection.execute(query).fetchall() == [(["a", None], {"k": "v"})]


def test_last_row_of_a_key_wins_and_a_repeated_batch_changes_nothing(spark: Any, postgres: str, table: str) -> None:
    write = table_writer(Database(postgres), table, ["id"], unique("t"))
    write(spark.range(1000).selectExpr("id % 10 AS id", "string(id) AS t").coalesce(1), 0)
    with psycopg.connect(postgres) as connection:
        rows = connection.execute(f"SELECT id, t FROM {table} ORDER BY id").fetchall()
    assert rows == [(i, str(990 + i)) for i in range(10)]
    write(spark.range(10).selectExpr("id", "'again' AS t"), 0)
    write(spark.range(10, 12).selectExpr("id", "'next' AS t"), 1)
    write(spark.range(10, 12).selectExpr("id", "'older' AS t"), 0)
    with psycopg.connect(postgres) as connection:
        query = f"SELECT t, count(*) FROM {table} WHERE t !~ '^[0-9]' GROUP BY t"
        assert connection.execute(query).fetchall() == [("next", 2)]


def test_tombstones_delete_in_the_order_of_the_batch(spark: Any, postgres: str, table: str) -> None:
    write = table_writer(Database(postgres), table, ["id"], unique("t"))
    columns = "id bigint, t string, _deleted boolean, _source struct<key: binary>"
    rows = [
        (1, "kept", False, (b"1",)),
        (2, "gone", False, (b"2",)),
        (None, None, True, (b"2",)),
        (None, None, True, (b"3",)),
        (3, "back", False, (b"3",)),
    ]
    write(spark.createDataFrame(rows, columns).coalesce(1), 0)
    with psycopg.connect(postgres) as connection:
        query = f"SELECT id, t FROM {table} ORDER BY id"
        assert connection.execute(query).fetchall() == [(1, "kept"), (3, "back")]
    write(spark.createDataFrame([(None, None, True, (b"1",))], columns), 1)
    with psycopg.connect(postgres) as connection:
        assert connection.execute(query).fetchall() == [(3, "back")]
    without_key = table_writer(Database(postgres), table, [], unique("t"))
    with pytest.raises(Exception, match="tombstone") as refusal:
        without_key(spark.createDataFrame(rows, columns), 0)
    assert 'a tombstone names one key column: set "keys" to it' in failure_reason(refusal.value)


def test_rows_of_attempts_that_do_not_count_are_left_out(
    spark: Any, postgres: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(postgres)
    staged = StagedTable(database, table, ("id",), unique("t"))
    create = StagedTable._create

    def with_a_stranger(self: StagedTable, columns: list[str]) -> str:
        stage = create(self, columns)
        with database.connect() as connection:
            batch = pa.RecordBatch.from_pydict({"id": [77], "t": ["of a doubled task"]})
            copy_rows(connection, stage, batch, attempt=10**12, place=0)
        return stage

    monkeypatch.setattr(StagedTable, "_create", with_a_stranger)
    frame = spark.range(3).selectExpr("id", "'x' AS t")
    staged.write(frame, 0)
    with psycopg.connect(postgres) as connection:
        query = f"SELECT id FROM {table} ORDER BY id"
        assert connection.execute(query).fetchall() == [(0,), (1,), (2,)]


def test_a_crash_of_the_server_between_two_tasks_loses_no_rows(postgres: str, table: str) -> None:
    """A crash empties the staging table, and later tasks copy into it as if nothing had happened."""
    database = Database(postgres)
    staged = StagedTable(database, table, ("id",), unique("t"))

    def copy(stage: str, first: int, attempt: int) -> None:
        rows = pa.RecordBatch.from_pydict({"id": range(first, first + 5), "t": ["x"] * 5})
        with database.connect() as connection:
            copy_rows(connection, stage, rows, attempt, place=first)

    def ids() -> list[int]:
        with psycopg.connect(postgres) as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()]

    stage = staged._create(["id", "t"])
    copy(stage, 0, attempt=1)
    _crash(postgres)
    copy(stage, 5, attempt=2)
    with pytest.raises(PipelineError, match="has 5 rows of 10 that the tasks copied, as after a crash"):
        staged.merge(stage, ["id", "t"], 7, {1: 5, 2: 5})
    assert ids() == []

    stage = staged._create(["id", "t"])
    for attempt, first in ((3, 0), (4, 5)):
        copy(stage, first, attempt)
    staged.merge(stage, ["id", "t"], 7, {3: 5, 4: 5})
    staged.merge(stage, ["id", "t"], 7, {3: 5, 4: 5})
    staged._drop(stage)
    assert ids() == list(range(10))


def _crash(postgres: str) -> None:
    """The server ends all its processes and recovers if one is killed."""
    with pytest.raises(psycopg.OperationalError), psycopg.connect(postgres) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        connection.execute("SELECT 1")

    def serves() -> bool:
        try:
            psycopg.connect(postgres).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_for(serves, "PostgreSQL to recover")


def test_failed_batch_leaves_nothing_and_a_killed_one_is_cleaned_up(spark: Any, postgres: str, table: str) -> None:
    database = Database(postgres)
    staged = StagedTable(database, table, ("id",), unique("t"))
    with pytest.raises(Exception, match="invalid input syntax"):
        staged.write(spark.sql("SELECT 'not a number' AS id, 'x' AS t"), 0)
    left = staged._create(["id", "t"])
    staged.write(spark.range(1).selectExpr("id", "'x' AS t"), 0)
    with psycopg.connect(postgres) as connection:
        assert connection.execute(f"SELECT id, t FROM {table}").fetchall() == [(0, "x")]
        assert stages(connection) == 0, left


def test_delta_table_has_files_of_tasks_with_bounds_and_each_batch_once(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    path = str(tmp_path / "lake")
    write = delta_writer(path, "n")
    columns = ("id", "string(id) AS name", "id / 4 AS share", "timestamp_seconds(id) AS at", "array(id) AS ids")
    write(spark.range(0, 100, 1, 2).selectExpr(*columns), 0)
    write(spark.range(0, 100, 1, 2).selectExpr(*columns), 0)
    write(spark.range(100, 150, 1, 2).selectExpr(*columns), 1)
    write(spark.range(0).selectExpr(*columns), 2)
    table = DeltaTable(path)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(150))
    assert spark.read.parquet(*table.file_uris()).where("name = string(id) AND ids[0] = id").count() == 150
    bounds = sorted(
        (row["num_records"], row["min"]["id"], row["max"]["id"])
        for row in pa.table(table.get_add_actions()).to_pylist()
    )
    assert bounds == [(25, 100, 124), (25, 125, 149), (50, 0, 49), (50, 50, 99)]
