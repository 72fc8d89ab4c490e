"""Rows with new or wider columns: the table gets them if the connector may change it, else a sentence says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.connectors.delta_files import delta_writer
from headrace.pipelines.connectors.evolution import columns_of_changes, evolve
from headrace.pipelines.errors import FlowStopped, PipelineError


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    found = Database(url)
    with found.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS evolving")
        connection.execute("CREATE TABLE evolving (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO evolving VALUES (1, 'old')")
    return found


def test_new_columns_are_added_and_old_rows_have_null(database: Database) -> None:
    columns = {"id": "int", "name": "string", "vip": "boolean", "score": "double"}
    with database.connect() as connection:
        assert len(evolve(database, connection, "evolving", columns)) == 2
        connection.execute("INSERT INTO evolving (id, name, score) VALUES (2, 'new', 1.5)")
    with database.connect() as connection:
        assert evolve(database, connection, "evolving", columns) == []
        rows = connection.execute("SELECT id, vip, score FROM evolving ORDER BY id").fetchall()
    assert [tuple(row) for row in rows] == [(1, None, None), (2, None, 1.5)]


def test_failed_batch_leaves_the_table_as_it_was(database: Database) -> None:
    with pytest.raises(ValueError, match="bad row"), database.connect() as connection:
        evolve(database, connection, "evolving", {"id": "int", "vip": "boolean"})
        raise ValueError("bad row")
    if not database.is_sqlite:
        # SQLite's driver commits before a statement that changes a table. The added column is empty and harmless.
        assert list(database.columns("evolving")) == ["id", "name"]


def test_narrow_columns_are_widened_and_other_types_are_refused(postgres: str) -> None:
    database = Database(postgres)
    with database.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS widening")
        connection.execute("CREATE TABLE widening (n integer, d numeric(5, 2), t text)")
        connection.execute("INSERT INTO widening VALUES (7, 1.25, 'x')")
    with database.connect() as connection:
        evolve(database, connection, "widening", {"n": "bigint", "d": "decimal(9,4)", "t": "string"})
        connection.execute(f"INSERT INTO widening VALUES ({2**40}, 12345.1234, 'y')")
    assert database.columns("widening") == {"n": "bigint", "d": "decimal(9, 4)", "t": "string"}
    with database.connect() as connection:
        # A narrower value fits without a change.
        assert evolve(database, connection, "widening", {"n": "int", "d": "decimal(3,1)"}) == []
    words = r"column 't' of table 'widening' is string, but the rows have int: cast it in select"
    with pytest.raises(PipelineError, match=words), database.connect() as connection:
        evolve(database, connection, "widening", {"t": "int"})


def test_columns_of_changes_have_types_that_hold_their_values() -> None:
    texts = ['{"id": 1, "vip": null}', None, '{"id": 2, "vip": true, "f": 1.5, "s": "x"}']
    assert columns_of_changes(texts) == {"id": "bigint", "vip": "boolean", "f": "double", "s": "string"}


def test_delta_table_gets_new_columns_only_with_evolve(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    def frame_of(**columns: Any) -> Any:
        return spark.createDataFrame([columns])

    path = str(tmp_path / "lake")
    delta_writer(path, "n")(frame_of(id=1), 0)
    with pytest.raises(FlowStopped, match=r"has no column 'vip': let the connector add it with evolve: true"):
        delta_writer(path, "n")(frame_of(id=2, vip=True), 1)
    delta_writer(path, "n", evolves=True)(frame_of(id=2, vip=True), 1)
    delta_writer(path, "n", evolves=True)(frame_of(id=3), 2)
    rows = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "vip": None}, {"id": 2, "vip": True}, {"id": 3, "vip": None}]


def test_delta_column_is_widened_and_other_types_are_refused(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    path = str(tmp_path / "lake")
    delta_writer(path, "n")(spark.createDataFrame([(1, "a")], "n int, t string"), 0)
    wide = spark.createDataFrame([(2**40, "b")], "n bigint, t string")
    with pytest.raises(FlowStopped, match=r"column 'n' .* is int, but the rows have bigint: widen it with evolve"):
        delta_writer(path, "n")(wide, 1)
    delta_writer(path, "n", evolves=True)(wide, 1)
    # A narrower value fits, and a repeated batch is skipped after the table was rewritten.
    delta_writer(path, "n", evolves=True)(spark.createDataFrame([(3, "c")], "n int, t string"), 2)
    delta_writer(path, "n", evolves=True)(wide, 1)
    rows = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: row["n"])
    assert rows == [{"n": 1, "t": "a"}, {"n": 3, "t": "c"}, {"n": 2**40, "t": "b"}]
    with pytest.raises(FlowStopped, match=r"column 't' .* is string, but the rows have int: cast it in select"):
        delta_writer(path, "n", evolves=True)(spark.createDataFrame([(1, 2)], "n int, t int"), 3)


def test_parquet_files_get_new_columns_but_one_type_each(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def run(select: str, name: str) -> None:
        (tmp_path / "in" / f"{name}.txt").write_text(f"{name}\n")
        file = tmp_path / "c.yml"
        file.write_text(f"from: {{file: in}}\nselect: {select}\nto: {{parquet: out}}\n")
        started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        started.start()
        started.supervise()

    run("SELECT value, 1 AS n FROM source", "a")
    run("SELECT value, 1 AS n, true AS vip FROM source", "b")
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "out")).collect()
    assert sorted((row.value, row.n, row.vip) for row in rows) == [("a", 1, None), ("b", 1, True)]
    with pytest.raises(PipelineError, match=r"column 'n' of the files in .* is int, but the rows have string"):
        run("SELECT value, 'one' AS n FROM source", "c")
