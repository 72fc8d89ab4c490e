"""Connectors in YAML between files, databases and topics."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import OptionError
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.followed_changes import ACCOUNTS, Accounts, equal_accounts
from tests.pipelines.test_sink import values_of
from tests.support.effort import rounds


@pytest.fixture
def connect(spark: Any, headrace: Cluster, tmp_path: Path) -> Callable[[str], None]:
    """Writes a connector file and runs it over the existing data."""

    def run(text: str, name: str = "c") -> None:
        file = tmp_path / f"{name}.yml"
        file.write_text(f"name: {name}\nbootstrap: {headrace.bootstrap}\n{text}")
        started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        started.start()
        started.supervise()

    return run


def fill(headrace: Cluster, topic: str, *values: bytes) -> None:
    now = int(time.time() * 1000)
    headrace.write(topic, [Record(None, value, timestamp_ms=now) for value in values])


def test_each_line_of_a_file_becomes_one_record(spark: Any, headrace: Cluster, connect: Any, tmp_path: Path) -> None:
    lines, orders = headrace.topic(), headrace.topic()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    text = f"from:\n  file: {{path: in, format: lines}}\nto:\n  topic: {{name: {lines}}}\n"
    connect(text)
    (tmp_path / "in" / "b.txt").write_text("three\n")
    connect(text)
    assert values_of(headrace, lines) == {b"one": 1, b"two": 1, b"three": 1}
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "x.csv").write_text("id,amount\n1,2.5\n2,30\n")
    connect(
        "from:\n  file: {path: csv, format: csv, options: {header: true}}\n"
        "select: SELECT id, amount FROM source WHERE amount > 10\n"
        f"to:\n  topic: {{name: {orders}, key: id}}\n",
        "csv",
    )
    assert values_of(headrace, orders) == {b'{"id":2,"amount":30.0}': 1}
    mixed = headrace.topic()
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "x.json").write_text('{"id": 1, "tags": ["a"]}\n{"id": 2}\n')
    spark.range(3, 4).write.parquet(str(tmp_path / "parquet"))
    for kind in ("json", "parquet"):
        connect(f"from:\n  file: {{path: {kind}, format: {kind}}}\nto:\n  topic: {{name: {mixed}}}\n", kind)
    assert values_of(headrace, mixed) == {b'{"id":1,"tags":["a"]}': 1, b'{"id":2,"tags":null}': 1, b'{"id":3}': 1}


def test_topic_is_written_to_parquet_delta_and_a_table_and_bad_rows_to_dead_letters(
    spark: Any, headrace: Cluster, connect: Any, tmp_path: Path
) -> None:
    topic = headrace.topic()
    headrace.client.create_topic(f"{topic}.dlq", 1)
    fill(headrace, topic, b'{"id": 1, "name": "a"}', b"broken", b'{"id": 2, "name": "b"}')
    source = f'from:\n  topic: {{name: {topic}, schema: "id int, name string"}}\nselect: SELECT id, name FROM source\n'
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
    table = f"to:\n  jdbc: {{url: 'sqlite:///{tmp_path}/t.db', table: people, keys: id}}\n"
    connect(source + "to:\n  parquet: {path: lake}\n", "lake")
    connect(source + "to:\n  delta: {path: delta}\n", "delta")
    connect(source + table, "table")
    fill(headrace, topic, b'{"id": 2, "name": "B"}')
    connect(source + "to:\n  delta: {path: delta}\n", "delta")
    connect(source + table, "table")
    from deltalake import DeltaTable

    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "lake")).collect())) == [(1, "a"), (2, "b")]
    assert sorted(DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()["name"].to_pylist()) == ["B", "a", "b"]
    with sqlite3.connect(tmp_path / "t.db") as database:
        assert database.execute("SELECT * FROM people ORDER BY id").fetchall() == [(1, "a"), (2, "B")]
        ((ledger, _),) = database.execute("SELECT name, batch FROM _headrace_ledger").fetchall()
    # A new checkpoint counts its batches from 0 again, so the ledger must use the query's id.
    query = json.loads((tmp_path / "storage" / "table" / "checkpoints" / "table" / "metadata").read_text())["id"]
    assert ledger == f"table-{query}"
    assert set(values_of(headrace, f"{topic}.dlq")) == {b"broken"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_new_rows_of_a_table_are_read_by_a_growing_column(
    request: pytest.FixtureRequest, headrace: Cluster, connect: Any, tmp_path: Path, kind: str
) -> None:
    topic = headrace.topic()
    database = Database(f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else request.getfixturevalue("postgres"))
    # Types that Spark lacks become text, as the database prints them.
    (number, document) = ("INTEGER", "TEXT") if kind == "sqlite" else ("SERIAL", "JSONB")
    with database.connect() as connection:
        connection.execute(f"CREATE TABLE log (id {number} PRIMARY KEY, text TEXT, doc {document}, big NUMERIC(20, 2))")
        connection.execute("INSERT INTO log (text, doc, big) VALUES ('a', '{\"x\": [1]}', 1.5), ('b', NULL, NULL)")
    text = (
        f"from:\n  jdbc: {{url: '{database.url}', table: log, column: id}}\n"
        "select: SELECT text, doc, CAST(big AS DOUBLE) AS big FROM source\n"
        f"to:\n  topic: {{name: {topic}, key: text}}\n"
    )
    connect(text, kind)
    with database.connect() as connection:
        connection.execute("INSERT INTO log (text) VALUES ('c')")
    connect(text, kind)
    seen = [json.loads(value) for value in values_of(headrace, topic).elements()]
    assert sorted(seen, key=lambda row: row["text"]) == [
        {"text": "a", "doc": '{"x": [1]}', "big": 1.5},
        {"text": "b", "doc": None, "big": None},
        {"text": "c", "doc": None, "big": None},
    ]


def test_sqlite_changes_are_captured_by_triggers_and_applied(headrace: Cluster, connect: Any, tmp_path: Path) -> None:
    topic = headrace.topic()
    for name in ("a.db", "b.db"):
        with sqlite3.connect(tmp_path / name) as database:
            database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
    changes = f"from:\n  cdc: {{url: 'sqlite:///{tmp_path}/a.db', tables: [items]}}\n"
    copy = changes + f"to:\n  topic: {{name: {topic}, key: key}}\n"
    connect(copy, "capture")
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("INSERT INTO items (name) VALUES ('x'), ('y')")
        database.execute("UPDATE items SET name = 'z' WHERE id = 1")
        database.execute("DELETE FROM items WHERE id = 2")
    connect(copy, "capture")
    found: dict[Any, int] = dict(values_of(headrace, topic))
    # A delete is followed by a tombstone.
    assert found.pop(None) == 1
    seen = sorted((json.loads(value) for value in found if value), key=lambda c: c["position"])
    assert [
        (c["op"], c["before"] and json.loads(c["before"]), c["after"] and json.loads(c["after"])) for c in seen
    ] == [
        ("insert", None, {"id": 1, "name": "x"}),
        ("insert", None, {"id": 2, "name": "y"}),
        ("update", {"id": 1, "name": "x"}, {"id": 1, "name": "z"}),
        ("delete", {"id": 2, "name": "y"}, None),
    ]


@pytest.mark.parametrize(("kind", "changes"), [("sqlite", 100), ("postgres", rounds(short=300, long=1000))])
def test_changes_reach_the_target_despite_restarts(
    request: pytest.FixtureRequest, connect: Any, tmp_path: Path, kind: str, changes: int
) -> None:
    """Thousands of changes with HEADRACE_EFFORT=long."""
    sqlite = f"sqlite:///{tmp_path}/source.db"
    source = Database(sqlite if kind == "sqlite" else request.getfixturevalue("postgres"))
    target = Database(f"sqlite:///{tmp_path}/target.db")
    for database in (source, target):
        with database.connect() as connection:
            connection.execute(ACCOUNTS)
    text = f"from:\n  cdc: {{url: '{source.url}', tables: [accounts]}}\nto:\n  jdbc: {{url: '{target.url}'}}\n"
    connect(text, kind)
    accounts = Accounts(source)
    for _ in range(rounds(short=2, long=10)):
        accounts.change(changes)
        connect(text, kind)
    assert equal_accounts(source, target)
    assert len(accounts.made) == 4
    print(f"{kind}: {dict(accounts.made)}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from: topicc\nto: console", "'topicc' is unknown (did you mean \"topic\"?)"),
        ("to: console", '"from" must name one of'),
        ("frm: x\nfrom: topic\nto: console", "field 'frm' is unknown (did you mean \"from\"?)"),
        ("from: {jdbc: {url: 'oracle://x', table: t, column: c}}\nto: console", "postgresql:// or sqlite:///"),
        ("from: {file: {path: .}}\nto: {jdbc: {url: 'mysql://h/d', table: t}}", "MariaDB and MySQL are sources only"),
        ("from: {file: {path: nowhere}}\nto: console", "does not exist"),
        ("from: {file: {pth: x}}\nto: console", "'pth' is unknown (did you mean \"path\"?)"),
    ],
)
def test_error_names_a_wrong_connector(spark: Any, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "c.yml"
    file.write_text(text)
    with pytest.raises(Exception) as refusal:
        connector_run(load_connector(file, "localhost:1"), spark, once=True, report=lambda _: None).start()
    assert words in str(refusal.value)
    assert isinstance(refusal.value, OptionError) or "OptionError" in str(refusal.value)
