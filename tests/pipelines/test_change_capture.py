"""Change capture as Spark drives it, without Spark: snapshots, handing over to the log, repeated batches, restarts."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.pipelines.connectors.cdc.snapshots import SnapshotFolder
from headrace.pipelines.connectors.cdc.source import INITIAL, NEVER, ChangeSource
from headrace.pipelines.connectors.databases import Database, quoted
from headrace.pipelines.errors import DataLossError, PipelineError
from tests.support.clock import wait_for
from tests.support.effort import rounds

_tables = itertools.count()


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path}/source.db")
    return Database(request.getfixturevalue(request.param))


@dataclass
class Stream:
    """The source of one query and its checkpoint: batches are logged, run, and committed, in this order."""

    url: str
    tables: list[str]
    state: Path
    snapshot: str = INITIAL
    chunk_rows: int = 3
    offsets: list[Any] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    reader: Any = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new driver. A batch that was logged and not committed runs again with the same offsets."""
        options = {
            "url": self.url,
            "tables": ",".join(self.tables),
            "slot": f"slot_{self.tables[0]}".lower(),
            "snapshot": self.snapshot,
            "chunkRows": str(self.chunk_rows),
            "state": str(self.state),
        }
        if self.reader is not None:
            self.reader.stop()
        self.reader = ChangeSource(options).streamReader(None)
        if not self.offsets:
            self.offsets = [_as_json(self.reader.initialOffset())]

    def plan(self) -> bool:
        """Logs the next batch. False if there is nothing to read."""
        end = _as_json(self.reader.latestOffset(self.offsets[-1], None))
        if end == self.offsets[-1]:
            return False
        self.offsets.append(end)
        return True

    def run(self) -> list[Any]:
        """The rows of the last logged batch."""
        parts = self.reader.partitions(*self.offsets[-2:])
        return [row for part in parts for row in self.reader.read(part)]

    def finish(self) -> None:
        self.rows += self.run()
        self.reader.commit(self.offsets[-1])

    def drain(self) -> None:
        while self.plan():
            self.finish()

    def changes(self, *operations: str) -> list[tuple[str, Any]]:
        return [
            (row[1], json.loads(row[4] or row[3] or "null"))
            for row in self.rows
            if not operations or row[1] in operations
        ]

    def table(self) -> dict[Any, Any]:
        """The table that a reader of the changes has."""
        found: dict[Any, Any] = {}
        for key, operation, _, _, after, _, _, _, old in self.rows:
            if operation == "truncate":
                found.clear()
                continue
            found.pop(key if old is None else old, None)
            if operation != "delete":
                found[key] = json.loads(after)
        return found


def _as_json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


Execute = Callable[..., None]


@pytest.fixture
def execute(database: Database) -> Execute:
    def run(*statements: str) -> None:
        with database.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    return run


@pytest.fixture
def table(database: Database, execute: Execute) -> str:
    name = f"items{next(_tables)}"
    execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2))")
    return name


def contents(database: Database, table: str) -> dict[Any, Any]:
    with database.connect() as connection:
        rows = connection.execute(f"SELECT id, name FROM {table}").fetchall()
    return {json.dumps({"id": row[0]}): row[1] for row in rows}


def followed(stream: Stream) -> dict[Any, Any]:
    return {key: row["name"] for key, row in stream.table().items()}


def test_stream_begins_with_the_existing_rows(database: Database, execute: Execute, table: str, tmp_path: Path) -> None:
    execute(*[f"INSERT INTO {table} VALUES ({number}, 'n{number}', 1.50)" for number in range(7)])
    stream = Stream(database.url, [table], tmp_path / "state")
    # Made before the snapshot is read: it is in the snapshot or in the log, and not in both.
    execute(f"INSERT INTO {table} VALUES (7, 'early', NULL)")
    assert stream.plan()
    # Made while the snapshot is read: its changes come after its rows.
    execute(f"UPDATE {table} SET name = 'late' WHERE id = 6", f"DELETE FROM {table} WHERE id = 0")
    stream.finish()
    stream.drain()
    assert followed(stream) == contents(database, table)
    operations = [operation for operation, _ in stream.changes()]
    reads = [row["id"] for _, row in stream.changes("read")]
    # SQLite reads each chunk at its own time. The others have one snapshot, and the changes after it.
    if not database.is_sqlite:
        assert reads == list(range(8)) if "insert" not in operations else [*reads, 7]
        assert operations[-2:] == ["update", "delete"]
    progress = stream.offsets[-1]["snapshot"]
    assert (progress["table"], progress["todo"], progress["rows"]) == (table, [], len(reads))
    # The same row looks the same in a snapshot and in a change.
    execute(f"UPDATE {table} SET name = 'n3' WHERE id = 3", f"UPDATE {table} SET name = 'n3b' WHERE id = 3")
    stream.drain()
    read = next(row for operation, row in stream.changes("read") if row["id"] == 3)
    updated = [row for operation, row in stream.changes("update") if row["id"] == 3]
    assert {**read, "name": "n3b"} == updated[-1]
    assert not list((tmp_path / "state").glob("[0-9]*"))


def test_repeated_batch_of_a_snapshot_has_the_same_rows(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    execute(*[f"INSERT INTO {table} VALUES ({number}, 'n{number}', 1)" for number in range(5)])
    stream = Stream(database.url, [table], tmp_path / "state")
    assert stream.plan()
    first = stream.run()
    assert [json.loads(row[4])["id"] for row in first if row[1] == "read"] == [0, 1, 2]
    execute(f"UPDATE {table} SET name = 'changed'")
    stream.restart()
    assert stream.run() == first
    stream.finish()
    stream.drain()
    assert followed(stream) == contents(database, table) == {json.dumps({"id": n}): "changed" for n in range(5)}


def test_another_snapshot_of_a_table_on_request(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    execute(*[f"INSERT INTO {table} VALUES ({number}, 'n{number}', 1)" for number in range(4)])
    stream = Stream(database.url, [table], tmp_path / "state", snapshot=NEVER)
    stream.drain()
    assert stream.rows == []
    folder = SnapshotFolder(tmp_path / "state")
    folder.ask("first", [table])
    assert stream.plan()
    # The driver ends before the batch: the request must neither be lost nor served twice.
    stream.restart()
    stream.finish()
    stream.restart()
    stream.drain()
    assert [row["id"] for _, row in stream.changes("read")] == [0, 1, 2, 3]
    assert folder.request() is None
    folder.ask("second", [table])
    stream.drain()
    assert len(stream.changes("read")) == 8


@pytest.mark.parametrize("seed", range(rounds(short=2, long=30)))
def test_random_changes_and_crashes_give_the_table(
    database: Database, execute: Execute, table: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    ids: list[int] = []
    fresh = itertools.count()

    def change() -> None:
        statements = []
        for _ in range(chance.randint(1, 4)):
            kind = chance.choice(["insert", "insert", "update", "delete", "move"]) if ids else "insert"
            if kind == "insert":
                ids.append(next(fresh))
                statements.append(f"INSERT INTO {table} VALUES ({ids[-1]}, 'new', NULL)")
                continue
            at = chance.randrange(len(ids))
            if kind == "update":
                statements.append(f"UPDATE {table} SET name = 'v{chance.random()}' WHERE id = {ids[at]}")
            elif kind == "delete":
                statements.append(f"DELETE FROM {table} WHERE id = {ids.pop(at)}")
            else:
                old, ids[at] = ids[at], next(fresh)
                statements.append(f"UPDATE {table} SET id = {ids[at]} WHERE id = {old}")
        execute(*statements)

    for _ in range(10):
        change()
    stream = Stream(database.url, [table], tmp_path / "state")
    for _ in range(rounds(short=25, long=80)):
        match chance.randrange(5):
            case 0 | 1:
                change()
            case 2 if chance.random() < 0.3:
                SnapshotFolder(tmp_path / "state").ask(str(chance.random()), [table])
            case _:
                if stream.plan():
                    if chance.random() < 0.3:
                        # The driver dies in the middle of the batch.
                        stream.run()
                        stream.restart()
                    stream.finish()
    stream.drain()
    assert followed(stream) == contents(database, table)


def test_two_streams_of_one_database_get_their_own_tables(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    other = f"items{next(_tables)}"
    execute(f"CREATE TABLE {other} (id INTEGER PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2))")
    streams = [Stream(database.url, [name], tmp_path / name) for name in (table, other)]
    # The first stream has finished its batch when the second one reads.
    for number in range(3):
        execute(*[f"INSERT INTO {name} VALUES ({number}, '{name}', NULL)" for name in (table, other)])
        for stream in streams:
            stream.drain()
    for stream, name in zip(streams, (table, other), strict=True):
        assert followed(stream) == contents(database, name) == {json.dumps({"id": n}): name for n in range(3)}
    if database.is_sqlite:
        with database.connect() as connection:
            assert connection.execute("SELECT count(*) FROM _headrace_changes").fetchall() == [(0,)]


def test_table_that_is_added_to_a_stream_is_followed(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    other = f"items{next(_tables)}"
    execute(f"CREATE TABLE {other} (id INTEGER PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2))")
    stream = Stream(database.url, [table], tmp_path / "state")
    stream.drain()
    stream.tables.append(other)
    stream.restart()
    stream.drain()
    execute(f"INSERT INTO {table} VALUES (1, 'old', NULL)", f"INSERT INTO {other} VALUES (1, 'added', NULL)")
    stream.drain()
    assert [row["name"] for _, row in stream.changes("insert")] == ["old", "added"]


def test_added_column_is_captured_after_a_restart(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    stream = Stream(database.url, [table], tmp_path / "state")
    stream.drain()
    execute(f"ALTER TABLE {table} ADD COLUMN size INTEGER")
    stream.restart()
    stream.drain()
    execute(f"INSERT INTO {table} VALUES (1, 'a', NULL, 7)")
    stream.drain()
    assert [row["size"] for _, row in stream.changes("insert")] == [7]


def test_values_do_not_depend_on_the_settings_of_the_server(postgres: str, tmp_path: Path) -> None:
    table = f"dated{next(_tables)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, day DATE, data BYTEA, took INTERVAL)")
        settings = {"datestyle": "SQL, DMY", "bytea_output": "escape", "intervalstyle": "iso_8601"}
        for name, value in settings.items():
            connection.execute(f"ALTER ROLE postgres SET {name} = '{value}'")
        try:
            insert = f"INSERT INTO {table} VALUES (%s, '2026-11-02', '\\x00ff', '1 day 2 hours')"
            connection.execute(insert, (1,))
            stream = Stream(postgres, [table], tmp_path / "state")
            stream.drain()
            connection.execute(insert, (2,))
            stream.drain()
        finally:
            for name in settings:
                connection.execute(f"ALTER ROLE postgres RESET {name}")
    texts = {"day": "2026-11-02", "data": "\\x00ff", "took": "1 day 02:00:00"}
    assert stream.changes() == [("read", {"id": 1, **texts}), ("insert", {"id": 2, **texts})]


def test_table_with_capitals_in_its_name(postgres: str, tmp_path: Path) -> None:
    """Programs that map objects to tables make such names."""
    with Database(postgres).connect() as connection:
        connection.execute('CREATE TABLE "OrderItem" (id INTEGER PRIMARY KEY)')
        connection.execute('INSERT INTO "OrderItem" VALUES (1)')
    stream = Stream(postgres, ["OrderItem"], tmp_path / "state")
    stream.drain()
    with Database(postgres).connect() as connection:
        connection.execute('INSERT INTO "OrderItem" VALUES (2)')
    stream.drain()
    assert [(row[0], row[1], row[2]) for row in stream.rows] == [
        ('{"id": 1}', "read", "public.OrderItem"),
        ('{"id": 2}', "insert", "public.OrderItem"),
    ]


@pytest.mark.parametrize("change", ["DROP TABLE {}", "ALTER TABLE {} RENAME TO {}_old"])
def test_last_changes_of_a_table_that_is_gone_are_read(
    database: Database, execute: Execute, table: str, tmp_path: Path, change: str
) -> None:
    stream = Stream(database.url, [table], tmp_path / "state", snapshot=NEVER)
    execute(f"INSERT INTO {table} VALUES (1, 'a', NULL)", f"INSERT INTO {table} VALUES (2, 'b', NULL)")
    execute(change.format(table, table))
    stream.drain()
    assert [row["id"] for _, row in stream.changes("insert")] == [1, 2]


def test_changed_key_and_truncated_table_are_told(
    database: Database, execute: Execute, table: str, tmp_path: Path
) -> None:
    execute(f"INSERT INTO {table} VALUES (1, 'a', NULL)")
    stream = Stream(database.url, [table], tmp_path / "state")
    stream.drain()
    execute(f"UPDATE {table} SET id = 2 WHERE id = 1")
    stream.drain()
    assert [(row[0], row[8]) for row in stream.rows if row[1] == "update"] == [('{"id": 2}', '{"id": 1}')]
    if not database.is_sqlite:
        execute(f"TRUNCATE TABLE {table}")
        stream.drain()
        assert [(row[1], row[0]) for row in stream.rows][-1] == ("truncate", None)
        assert followed(stream) == {}


def test_keys_of_several_columns_and_kinds(database: Database, execute: Execute, tmp_path: Path) -> None:
    table = f"pairs{next(_tables)}"
    execute(f"CREATE TABLE {table} (a VARCHAR(9), b INTEGER, name VARCHAR(9), PRIMARY KEY (b, a))")
    names = ["it's", 'a"b', "c\\d", "ä"]
    with database.connect() as connection:
        for number, name in itertools.product((1, 2), names):
            marks = ", ".join([database.mark] * 3)
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", (name, number, None))
    stream = Stream(database.url, [table], tmp_path / "state", chunk_rows=1)
    stream.drain()
    found = [(row["b"], row["a"]) for _, row in stream.changes("read")]
    assert sorted(found) == sorted(itertools.product((1, 2), names))
    assert [b for b, _ in found] == [1] * 4 + [2] * 4


def test_sqlite_rows_of_any_values_and_many_columns(tmp_path: Path) -> None:
    """A trigger that fails would fail the statement of the application."""
    database = Database(f"sqlite:///{tmp_path}/source.db")
    names = [f"c{number}" for number in range(130)]
    values = [b"\x00\xff", float("inf"), float("-inf"), 1.5, 7, "it's {}", None, "Inf", *range(122)]
    marks = ", ".join("?" * 130)
    with database.connect() as connection:
        connection.execute(f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {', '.join(names)})")
        connection.execute(f"INSERT INTO wide VALUES (1, {marks})", values)
    stream = Stream(database.url, ["wide"], tmp_path / "state")
    stream.drain()
    with database.connect() as connection:
        connection.execute(f"INSERT INTO wide VALUES (2, {marks})", values)
        connection.execute("DELETE FROM wide")
    stream.drain()
    texts = ["\\x00ff", "Infinity", "-Infinity", *values[3:]]
    for number, (_, row) in zip((1, 2, 1, 2), stream.changes(), strict=True):
        assert row == {"id": number, **dict(zip(names, texts, strict=True))}


def test_table_without_a_key_is_refused(database: Database, execute: Execute, tmp_path: Path) -> None:
    table = f"bare{next(_tables)}"
    execute(f"CREATE TABLE {quoted(table) if not database.is_mysql else table} (name VARCHAR(9))")
    stream = Stream(database.url, [table], tmp_path / "state")
    with pytest.raises(PipelineError, match=f"table '{table}' has no primary key.*snapshot: never"):
        stream.plan()


def test_binary_log_continues_in_the_next_file(mariadb: str, tmp_path: Path) -> None:
    database, table = Database(mariadb), f"rolled{next(_tables)}"
    with database.connect() as connection:
        connection.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, price DECIMAL(30, 10), at DATETIME(3), data BLOB, "
            "big BIGINT UNSIGNED, kind ENUM('x', 'y'), took TIME, seen TIMESTAMP NULL, doc JSON)"
        )
        connection.execute(
            f"INSERT INTO {table} VALUES (1, 12345678901234567890.0123456789, '2026-01-01 10:00:00.123', x'00ff', "
            "18446744073709551615, 'y', '-100:00:01', '2026-02-03 04:05:06', '{\"a\": 1}')"
        )
    stream = Stream(mariadb, [table], tmp_path / "state")
    stream.drain()
    with database.connect() as connection:
        connection.execute(f"UPDATE {table} SET id = 2")
    with database.connect() as connection:
        connection.execute("FLUSH BINARY LOGS")
        connection.execute(f"DELETE FROM {table}")
        # Rolled back: not a change.
    with database.connect() as connection:
        connection.execute(f"INSERT INTO {table} (id) VALUES (9)")
        connection.rollback()
    behind = stream.reader.reportLatestOffset()["behind"]
    stream.drain()
    read, updated, deleted = [row for _, row in stream.changes()]
    assert read == {
        "id": 1, "price": "12345678901234567890.0123456789", "at": "2026-01-01 10:00:00.123000", "data": "\\x00ff",
        "big": 18446744073709551615, "kind": "y", "took": "-100:00:01", "seen": "2026-02-03 04:05:06",
        "doc": '{"a": 1}',
    }  # fmt: skip
    assert updated == deleted == {**read, "id": 2}
    assert 0 < behind < 10_000

    def is_purged() -> bool:
        # The server keeps a log that it still sends to a reader whose connection has just ended.
        with database.connect() as connection:
            newest = connection.execute("SHOW BINARY LOGS").fetchall()[-1][0]
            connection.execute(f"PURGE BINARY LOGS TO '{newest}'")
            return len(connection.execute("SHOW BINARY LOGS").fetchall()) == 1

    with database.connect() as connection:
        connection.execute("FLUSH BINARY LOGS")
    wait_for(is_purged, "the server to delete its old logs")
    with pytest.raises(DataLossError, match="those between are lost"):
        stream.plan()


def test_rows_that_were_rolled_back_are_no_changes(mariadb: str, tmp_path: Path) -> None:
    """The server logs them if the transaction did something that cannot be rolled back."""
    database, table, other = Database(mariadb), f"rolled{next(_tables)}", f"plain{next(_tables)}"

    def run(*statements: str) -> None:
        with database.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    run(f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB")
    run(f"CREATE TABLE {other} (id INT PRIMARY KEY) ENGINE=MyISAM")
    stream = Stream(mariadb, [table, other], tmp_path / "state", snapshot=NEVER)
    add = f"INSERT INTO {table} VALUES"
    run(
        "START TRANSACTION",
        f"{add} (1)",
        "CREATE TEMPORARY TABLE gone (a INT)",
        "DROP TEMPORARY TABLE gone",
        "ROLLBACK",
    )
    run(
        "START TRANSACTION", f"{add} (2)", "SAVEPOINT `First`", f"{add} (3)", "SAVEPOINT second", f"{add} (4)",
        f"INSERT INTO {other} VALUES (1)", "ROLLBACK TO first", f"{add} (5)", "COMMIT",
    )  # fmt: skip
    stream.drain()
    found = {
        name: [json.loads(row[4])["id"] for row in stream.rows if row[2] == f"shop.{name}"] for name in (table, other)
    }
    assert found == {table: [2, 5], other: [1]}
    with database.connect() as connection:
        assert connection.execute(f"SELECT id FROM {table}").fetchall() == ((2,), (5,))
    run(f"/* app: shop */ TRUNCATE TABLE {other}")
    stream.drain()
    assert [row[1] for row in stream.rows][-1] == "truncate"


def test_binary_log_that_began_anew_stops_the_connector(mariadb: str, tmp_path: Path) -> None:
    """As after RESET MASTER, or a failover to a server with a log of its own."""
    database, table = Database(mariadb), f"reset{next(_tables)}"

    def run(*statements: str) -> None:
        with database.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    run(f"CREATE TABLE {table} (id INT PRIMARY KEY, text VARCHAR(2000))")
    stream = Stream(mariadb, [table], tmp_path / "state", snapshot=NEVER)
    run("FLUSH BINARY LOGS", f"INSERT INTO {table} VALUES (1, '{'x' * 2000}')")
    stream.drain()
    run(f"INSERT INTO {table} VALUES (2, 'b')")
    assert stream.plan()
    before = stream.offsets[-1]["position"] >> 32
    run("RESET MASTER", f"INSERT INTO {table} VALUES (3, 'never seen')")
    words = "it is not the log that was followed, as after RESET MASTER or a failover.*takes a new snapshot"
    # The batch that was planned, a repeat of it, and the next one; also when the new log has as many files.
    for _ in range(2):
        with pytest.raises(DataLossError, match=words):
            stream.run()
        stream.restart()
        with pytest.raises(DataLossError, match=words):
            stream.plan()
        run(*["FLUSH BINARY LOGS"] * before)


def test_binary_log_of_another_server_stops_the_connector(mariadb: str, tmp_path: Path) -> None:
    database, table = Database(mariadb), f"moved{next(_tables)}"
    with database.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    stream = Stream(mariadb, [table], tmp_path / "state")
    stream.drain()
    # An offset of an earlier version gets the server with the next batch.
    del stream.offsets[-1]["server"]
    stream.drain()
    assert stream.offsets[-1]["server"] == "1"
    with database.connect() as connection:
        connection.execute(f"INSERT INTO {table} VALUES (1)")
        connection.execute("SET GLOBAL server_id = 2")
    try:
        with pytest.raises(DataLossError, match="changes were taken from server 1, and this is server 2"):
            stream.plan()
    finally:
        with database.connect() as connection:
            connection.execute("SET GLOBAL server_id = 1")
    stream.drain()
    assert [row["id"] for _, row in stream.changes("insert")] == [1]


def test_binary_log_without_column_names_is_refused(mariadb: str, tmp_path: Path) -> None:
    with Database(mariadb).connect() as connection:
        connection.execute("CREATE TABLE nameless (id INT PRIMARY KEY)")
        connection.execute("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    words = r"binlog_row_metadata is 'NO_LOG': .*needs binlog_row_metadata = FULL"
    try:
        with pytest.raises(PipelineError, match=words):
            Stream(mariadb, ["nameless"], tmp_path / "state")
    finally:
        with Database(mariadb).connect() as connection:
            connection.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
