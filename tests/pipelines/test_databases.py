"""The ledger and the change logs of connectors in real databases, without Spark."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.pipelines.connectors.cdc.change_logs import SqliteChanges, change_log
from headrace.pipelines.connectors.databases import Connection, Database
from headrace.pipelines.errors import DataLossError


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path}/ledger.db")
    return Database(request.getfixturevalue("postgres"))


@pytest.mark.parametrize("first_commits", [True, False])
def test_only_one_of_two_concurrent_writers_writes_a_batch(database: Database, first_commits: bool) -> None:
    """Two drivers at once: the second waits for the first, and writes only if the first did not."""
    name = f"copy-{first_commits}"
    with database.connect() as connection:
        assert database.claim_batch(connection, name, 4)
    second: list[bool] = []

    def claim() -> None:
        with database.connect() as connection:
            second.append(database.claim_batch(connection, name, 5))

    other = threading.Thread(target=claim)
    try:
        with database.connect() as connection:
            assert database.claim_batch(connection, name, 5)
            other.start()
            other.join(0.2)
            assert other.is_alive()
            if not first_commits:
                raise InterruptedError
    except InterruptedError:
        pass
    other.join(30)
    assert second == [not first_commits]
    with database.connect() as connection:
        assert not database.claim_batch(connection, name, 5)
        assert not database.claim_batch(connection, name, 3)
        assert database.claim_batch(connection, f"{name}-other", 0)


def test_postgres_log_returns_the_same_changes_until_they_are_released(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as source:
        source.execute("CREATE TABLE parts (id INTEGER PRIMARY KEY, ok BOOLEAN, text TEXT)")
        log = change_log(postgres, ["parts"], "parts_slot")
        start = log.prepare()
        assert log.prepare() == start
        # Too large for its row and not compressible: PostgreSQL stores it separately and does not send it again.
        source.execute("ALTER TABLE parts ALTER text SET STORAGE EXTERNAL")
        source.execute("INSERT INTO parts VALUES (1, true, repeat('long ', 2000))")
        source.execute("UPDATE parts SET ok = false")
        middle = log.latest()
        source.execute("DELETE FROM parts")
        end = log.latest()

    def seen(after: int, until: int) -> list[tuple[str, Any]]:
        return [(change.operation, change.after or change.before) for change in log.changes(after, until)]

    text = "long " * 2000
    first = [("insert", {"id": 1, "ok": True, "text": text}), ("update", {"id": 1, "ok": False})]
    assert seen(start, middle) == first
    assert seen(start, end) == [*first, ("delete", {"id": 1})]
    log.forget(middle)
    assert [operation for operation, _ in seen(middle, end)] == ["delete"]
    log.forget(start)
    assert log.prepare() >= middle
    log.check(middle)
    with pytest.raises(DataLossError, match=r"slot 'parts_slot' begins at .*: those between are lost"):
        log.check(start)
    with psycopg.connect(postgres, autocommit=True) as source:
        source.execute("SELECT pg_drop_replication_slot('parts_slot')")
    with pytest.raises(DataLossError, match="slot 'parts_slot' is gone"):
        log.check(end)
    log.prepare()
    with pytest.raises(DataLossError, match="slot 'parts_slot' begins at"):
        log.check(middle)


def test_postgres_transactions_whose_commit_crosses_a_page_are_not_lost(postgres: str) -> None:
    """PostgreSQL flushes whole pages of its log in the background, so a batch may end in the middle of a commit."""
    with psycopg.connect(postgres, autocommit=True) as source:
        source.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY)")
        log = change_log(postgres, ["pages"], "pages_slot")
        at = log.prepare()
        source.execute("SET synchronous_commit = off")
        source.execute("DO $$ BEGIN FOR n IN 1..2000 LOOP INSERT INTO pages VALUES (n); COMMIT; END LOOP; END $$")
        source.execute("SET synchronous_commit = on")
        source.execute("INSERT INTO pages VALUES (2001)")
    last, page = log.latest(), 8192
    found: list[Any] = []
    for end in [*range(at // page * page + page, last, page), last]:
        found += [change.after for change in log.changes(at, end)]
        log.forget(end)
        log.check(end)
        at = end
    assert found == [{"id": number} for number in range(1, 2002)]
    # The slot follows again, so that the server can delete its log.
    assert last % page == 0 or log.prepare() == last


def test_recreated_sqlite_log_is_detected(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a.db")
    with database.connect() as connection:
        connection.execute("CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT)")
    log = change_log(database.url, ["parts"], "unused")
    start = log.prepare()
    with database.connect() as connection:
        connection.execute("INSERT INTO parts VALUES (1, 'a'), (2, NULL)")
    end = log.latest()
    assert [change.after for change in log.changes(start, end)] == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    log.forget(end)
    log.check(end)
    assert log.prepare() == end
    with database.connect() as connection:
        connection.execute("DROP TABLE _headrace_changes")
    log.prepare()
    with pytest.raises(DataLossError, match="ends at change 0, but 2 were taken"):
        log.check(end)


@dataclass(frozen=True)
class _Watched(Database):
    """Another program tries to write before each statement."""

    write: Callable[[str], None] = print

    def open(self) -> Connection:
        connection = super().open()
        assert isinstance(connection, sqlite3.Connection)
        connection.set_trace_callback(self.write)
        return connection


def test_rows_written_while_sqlite_triggers_are_replaced_are_captured(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    other = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)
    other.execute("CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT)")
    change_log(url, ["parts"], "unused").prepare()
    written = 0

    def write(_statement: str) -> None:
        nonlocal written
        with suppress(sqlite3.OperationalError):
            other.execute("INSERT INTO parts (name) VALUES ('x')")
            written += 1

    other.execute("ALTER TABLE parts ADD COLUMN price REAL")
    SqliteChanges(_Watched(url, write), ("parts",)).prepare()
    assert written
    log = change_log(url, ["parts"], "unused")
    other.execute("INSERT INTO parts (name, price) VALUES ('y', 2.5)")
    found = [change.after for change in log.changes(0, log.latest())]
    (rows,) = other.execute("SELECT count(*) FROM parts").fetchone()
    assert len(found) == rows
    assert found[-1] == {"id": rows, "name": "y", "price": 2.5}


def test_a_start_with_triggers_that_are_right_waits_for_no_writer(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)
    other.execute("CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT)")
    log = change_log(f"sqlite:///{tmp_path}/a.db", ["parts"], "unused")
    log.prepare()
    other.execute("INSERT INTO parts VALUES (1, 'a')")
    other.execute("BEGIN IMMEDIATE")
    assert log.prepare() == 0
    other.execute("INSERT INTO parts VALUES (2, 'b')")
    other.execute("COMMIT")
    assert [change.after for change in log.changes(0, log.latest())] == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]
