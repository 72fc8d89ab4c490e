"""Connectors as YAML: files, databases and topics, joined without code."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors import connector_run, load_connector
from headrace.pipelines.errors import OptionError
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.reference.kafka import free_port


@pytest.fixture
def connect(spark: Any, headrace: Cluster, tmp_path: Path) -> Callable[[str], None]:
    """Writes a connector file and runs it over what is there."""

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


def test_files_become_records_once_each(headrace: Cluster, connect: Any, tmp_path: Path) -> None:
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


def test_a_topic_goes_to_parquet_delta_and_a_table_and_bad_rows_aside(
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
    assert set(values_of(headrace, f"{topic}.dlq")) == {b"broken"}


def test_new_rows_of_a_table_are_read_by_a_growing_column(headrace: Cluster, connect: Any, tmp_path: Path) -> None:
    topic = headrace.topic()
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO log (text) VALUES (?)", [("a",), ("b",)])
    text = (
        f"from:\n  jdbc: {{url: 'sqlite:///{tmp_path}/s.db', table: log, column: id}}\n"
        f"to:\n  topic: {{name: {topic}, value: text}}\n"
    )
    connect(text)
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("INSERT INTO log (text) VALUES ('c')")
    connect(text)
    connect(text)
    assert values_of(headrace, topic) == {b"a": 1, b"b": 1, b"c": 1}


def test_sqlite_changes_are_captured_by_triggers_and_applied(headrace: Cluster, connect: Any, tmp_path: Path) -> None:
    topic = headrace.topic()
    for name in ("a.db", "b.db"):
        with sqlite3.connect(tmp_path / name) as database:
            database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
    changes = f"from:\n  cdc: {{url: 'sqlite:///{tmp_path}/a.db', tables: [items]}}\n"
    copy = changes + f"to:\n  topic: {{name: {topic}, key: key}}\n"
    connect(copy, "capture")
    for statement in (
        "INSERT INTO items (name) VALUES ('x'), ('y')",
        "UPDATE items SET name = 'z' WHERE id = 1",
        "DELETE FROM items WHERE id = 2",
    ):
        with sqlite3.connect(tmp_path / "a.db") as database:
            database.execute(statement)
        connect(copy, "capture")
    seen = sorted((json.loads(value) for value in values_of(headrace, topic)), key=lambda c: c["position"])
    assert [
        (c["op"], c["before"] and json.loads(c["before"]), c["after"] and json.loads(c["after"])) for c in seen
    ] == [
        ("insert", None, {"id": 1, "name": "x"}),
        ("insert", None, {"id": 2, "name": "y"}),
        ("update", {"id": 1, "name": "x"}, {"id": 1, "name": "z"}),
        ("delete", {"id": 2, "name": "y"}, None),
    ]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real PostgreSQL with logical decoding, of this test alone."""
    binaries = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
    programs = {
        name: shutil.which(name) or (str(binaries / name) if binaries else "") for name in ("initdb", "postgres")
    }
    if not all(Path(program).exists() for program in programs.values() if program) or not all(programs.values()):
        pytest.skip("PostgreSQL's programs (initdb, postgres) are not installed")
    folder = tmp_path_factory.mktemp("postgres")
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        import pwd

        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL needs a user other than root, and there is no user postgres")
        for part in (folder, *folder.parents[:2]):
            part.chmod(0o755)
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "cwd": folder}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **as_user}
    data = folder / "data"
    subprocess.run([programs["initdb"], "-D", data, "-U", "postgres", "-A", "trust", "-N"], check=True, **quiet)
    port = free_port()
    settings = [
        "wal_level=logical",
        f"port={port}",
        "listen_addresses=127.0.0.1",
        f"unix_socket_directories={folder}",
        "fsync=off",
    ]
    command = [programs["postgres"], "-D", str(data)]
    for setting in settings:
        command += ["-c", setting]
    process = subprocess.Popen(command, **quiet)
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        import psycopg

        for _ in range(200):
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def test_postgres_changes_reach_the_target_through_restarts(connect: Any, postgres: str, tmp_path: Path) -> None:
    import random

    import psycopg

    chance = random.Random(5)
    columns = "(id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)"
    with psycopg.connect(postgres, autocommit=True) as source:
        source.execute(f"CREATE TABLE accounts {columns}")
        source.execute("ALTER TABLE accounts REPLICA IDENTITY FULL")
    with sqlite3.connect(tmp_path / "target.db") as target:
        target.execute(f"CREATE TABLE accounts {columns}")
    text = (
        f"from:\n  cdc: {{url: '{postgres}', tables: [accounts]}}\n"
        f"to:\n  jdbc: {{url: 'sqlite:///{tmp_path}/target.db'}}\n"
    )
    connect(text, "cdc")
    for _ in range(3):
        with psycopg.connect(postgres) as source:
            for number in range(300):
                row = chance.randrange(100)
                match chance.choice("iuuud"):
                    case "i":
                        values = (row, f"n{number}", number)
                        source.execute("INSERT INTO accounts VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", values)
                    case "u":
                        source.execute("UPDATE accounts SET amount = amount + 1, name = 'u' WHERE id = %s", (row,))
                    case _:
                        source.execute("DELETE FROM accounts WHERE id = %s", (row,))
        connect(text, "cdc")
    with psycopg.connect(postgres) as source, sqlite3.connect(tmp_path / "target.db") as target:
        wanted = source.execute("SELECT * FROM accounts ORDER BY id").fetchall()
        assert wanted
        assert target.execute("SELECT * FROM accounts ORDER BY id").fetchall() == wanted
        (kept,) = source.execute("SELECT count(*) FROM pg_replication_slots").fetchone() or (0,)
        assert kept == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from: topicc\nto: console", "'topicc' is unknown (did you mean \"topic\"?)"),
        ("to: console", '"from" must name one of'),
        ("frm: x\nfrom: topic\nto: console", "field 'frm' is unknown (did you mean \"from\"?)"),
        ("from: {jdbc: {url: 'mysql://x', table: t, column: c}}\nto: console", "postgresql:// or sqlite:///"),
        ("from: {file: {path: nowhere}}\nto: console", "does not exist"),
        ("from: {file: {pth: x}}\nto: console", "'pth' is unknown (did you mean \"path\"?)"),
    ],
)
def test_a_wrong_connector_is_named(spark: Any, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "c.yml"
    file.write_text(text)
    with pytest.raises(Exception) as refusal:
        connector_run(load_connector(file, "localhost:1"), spark, once=True, report=lambda _: None).start()
    assert words in str(refusal.value)
    assert isinstance(refusal.value, OptionError) or "OptionError" in str(refusal.value)
