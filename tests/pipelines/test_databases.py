"""The ledger and the change logs of connectors in real databases, without Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.pipelines.connectors.cdc.change_logs import change_log
from headrace.pipelines.connectors.databases import Database
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
