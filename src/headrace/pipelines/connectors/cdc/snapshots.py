"""Snapshots of tables for change capture: the rows that exist, in chunks, each exact at a position of the change log.

A snapshot is one transaction of the database that sees the tables at one position of its log:

- PostgreSQL: a temporary replication slot gives its transaction the snapshot of its consistent point;
- MariaDB: START TRANSACTION WITH CONSISTENT SNAPSHOT, whose position the server tells;
- SQLite: each chunk is a transaction of its own, because an open one would block writers.

The reader of changes stays at this position until the snapshot is read, so no change is lost and none comes before the
row that it changes. Chunks go by the primary key. If the driver ends in the middle, the next one continues after the
last key with a new transaction at a later position, after the changes up to there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol

from headrace.pipelines.connectors.cdc.binlog import snapshot_position
from headrace.pipelines.connectors.cdc.change_logs import sqlite_row
from headrace.pipelines.connectors.cdc.pgoutput import TEXT_SETTINGS, lsn_from_text, typed_value
from headrace.pipelines.connectors.databases import Connection, Database, DatabaseRow, only_row, quoted
from headrace.pipelines.connectors.mysql_connection import json_row
from headrace.pipelines.errors import PipelineError

Key = Sequence[object]


@dataclass(frozen=True)
class Chunk:
    """Rows of one table in the order of its key, as they are at a position of the change log."""

    table: str
    position: int
    key: tuple[str, ...]
    rows: list[dict[str, object]]

    def last_key(self) -> list[object]:
        return [self.rows[-1][name] for name in self.key]


class SnapshotReader(Protocol):
    def chunk(self, table: str, after: Key | None, limit: int) -> Chunk: ...

    def close(self) -> None: ...


def snapshot_reader(database: Database, slot: str) -> SnapshotReader:
    if database.is_sqlite:
        return SqliteSnapshot(database)
    return MariaSnapshot(database) if database.is_mysql else PostgresSnapshot(database, slot)


def key_of(database: Database, table: str) -> tuple[str, ...]:
    with database.connect() as connection:
        found = tuple(database.primary_key(connection, table))
    if not found:
        database.columns(table)
        raise PipelineError(
            f"table {table!r} has no primary key, which its snapshot needs: add one, or set snapshot: never in from.cdc"
        )
    return found


def estimated_rows(database: Database, table: str) -> int | None:
    """How many rows the table has, about; None if the database does not know."""
    with database.connect() as connection:
        if database.is_sqlite:
            (count,) = only_row(connection.execute(f"SELECT count(*) FROM {quoted(table)}"))
        elif database.is_mysql:
            query = (
                "SELECT table_rows FROM information_schema.tables WHERE table_schema = database() AND table_name = %s"
            )
            (count,) = only_row(connection.execute(query, (table.rpartition(".")[2],)))
        else:
            (count,) = only_row(
                connection.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", (quoted(table),))
            )
    return int(count) if count is not None and int(count) >= 0 else None


class _PgResult(Protocol):
    """The part of libpq's result that a snapshot uses."""

    status: int
    ntuples: int
    nfields: int
    error_message: bytes

    def fname(self, column: int) -> bytes: ...
    def ftype(self, column: int) -> int: ...
    def get_value(self, row: int, column: int) -> bytes | None: ...


class _PgConn(Protocol):
    def exec_(self, command: bytes) -> _PgResult: ...


class _ReplicationConnection(Protocol):
    @property
    def pgconn(self) -> _PgConn: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Result:
    raw: _PgResult

    def text(self, row: int, column: int) -> str | None:
        data = self.raw.get_value(row, column)
        return None if data is None else data.decode()

    def rows(self) -> list[dict[str, object]]:
        columns = [(self.raw.fname(at).decode(), self.raw.ftype(at)) for at in range(self.raw.nfields)]
        return [
            {name: typed_value(kind, self.text(row, at)) for at, (name, kind) in enumerate(columns)}
            for row in range(self.raw.ntuples)
        ]


@dataclass
class PostgresSnapshot:
    database: Database
    slot: str
    _server: _ReplicationConnection | None = None
    _position: int = 0

    def chunk(self, table: str, after: Key | None, limit: int) -> Chunk:
        key = key_of(self.database, table)
        if self._server is None:
            self._open()
        name = self._query(  # with its schema, as the log names it
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.oid = {_literal(quoted(table))}::regclass"
        ).text(0, 0)
        columns = ", ".join(quoted(column) for column in key)
        # A literal takes the type of the column that it is compared with.
        where = f"WHERE ({columns}) > ({', '.join(_literal(value) for value in after)})" if after is not None else ""
        found = self._query(f"SELECT * FROM {quoted(table)} {where} ORDER BY {columns} LIMIT {limit}")
        return Chunk(name or table, self._position, key, found.rows())

    def _open(self) -> None:
        import psycopg

        try:
            self._server = psycopg.connect(self.database.url, replication="database", autocommit=True)
        except psycopg.Error as error:
            raise PipelineError(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}") from error
        self._query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        temporary = f"{self.slot}_snapshot_{os.getpid()}"
        made = self._query(f'CREATE_REPLICATION_SLOT "{temporary}" TEMPORARY LOGICAL pgoutput USE_SNAPSHOT')
        self._position = lsn_from_text(made.text(0, 1) or "")
        for setting in TEXT_SETTINGS:
            self._query(f"SET LOCAL {setting}")

    def _query(self, text: str) -> _Result:
        """A connection for replication takes simple queries only."""
        import psycopg

        assert self._server is not None
        found = self._server.pgconn.exec_(text.encode())
        if found.status in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK):
            return _Result(found)
        reason = " ".join(found.error_message.decode(errors="replace").split())
        self.close()
        raise PipelineError(f"PostgreSQL: the snapshot failed: {reason}")

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _literal(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # With a backslash the text must not depend on standard_conforming_strings.
    escaped = text.replace("'", "''")
    return f"E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in escaped else f"'{escaped}'"


@dataclass
class MariaSnapshot:
    database: Database
    _connection: Connection | None = None
    _position: int = 0

    def chunk(self, table: str, after: Key | None, limit: int) -> Chunk:
        key = key_of(self.database, table)
        if self._connection is None:
            self._connection = self.database.open()
            self._connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self._position = snapshot_position(self._connection)
        rows, names = _rows_after(self._connection, table, key, after, limit, "%s")
        (schema,) = only_row(self._connection.execute("SELECT database()"))
        name = f"{schema}.{table.rpartition('.')[2]}"
        return Chunk(name, self._position, key, [json_row(dict(zip(names, row, strict=True))) for row in rows])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class SqliteSnapshot:
    database: Database
    log_table: str = "_headrace_changes"

    def chunk(self, table: str, after: Key | None, limit: int) -> Chunk:
        key = key_of(self.database, table)
        with self.database.connect() as connection:
            connection.execute("BEGIN")
            found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self.log_table,)).fetchone()
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()]
            # As the triggers write it, so that a row looks the same in a snapshot and in a change.
            where, values = _after(key, after, "?")
            order = ", ".join(quoted(name) for name in key)
            query = f"SELECT {sqlite_row(columns)} FROM {quoted(table)} {where} ORDER BY {order} LIMIT {limit}"
            rows = [json.loads(row[0]) for row in connection.execute(query, values)]
        return Chunk(table, int(found[0]) if found else 0, key, rows)

    def close(self) -> None:
        """Holds nothing."""


def _after(key: Sequence[str], after: Key | None, mark: str) -> tuple[str, list[object]]:
    if after is None:
        return "", []
    columns = ", ".join(quoted(name) for name in key)
    return f"WHERE ({columns}) > ({', '.join([mark] * len(key))})", [_key_value(value) for value in after]


def _key_value(value: object) -> object:
    """A value of a key as the driver takes it: bytes are text in JSON."""
    return bytes.fromhex(value[2:]) if isinstance(value, str) and value.startswith("\\x") else value


def _rows_after(
    connection: Connection, table: str, key: Sequence[str], after: Key | None, limit: int, mark: str
) -> tuple[list[DatabaseRow], list[str]]:
    where, values = _after(key, after, mark)
    order = ", ".join(quoted(name) for name in key)
    cursor = connection.execute(f"SELECT * FROM {quoted(table)} {where} ORDER BY {order} LIMIT {limit}", values)
    return cursor.fetchall(), [column[0] for column in cursor.description]


@dataclass(frozen=True)
class SnapshotState:
    """The part of a stream's offset that says how far the snapshot is."""

    todo: tuple[str, ...] = ()
    # Key of the last row of the first table that is still to be read.
    after: tuple[object, ...] | None = None
    chunk: int = 0
    # Rows read of the current or last table, and how many it has, about.
    rows: int = 0
    of: int | None = None
    table: str | None = None
    # The request that began it, so that each request is served once.
    request: str | None = None

    @classmethod
    def of_offset(cls, offset: Mapping[str, object]) -> SnapshotState:
        given = offset.get("snapshot")
        if not isinstance(given, Mapping):
            return cls()
        after = given.get("after")
        return cls(**{**given, "todo": tuple(given["todo"]), "after": None if after is None else tuple(after)})

    def in_offset(self) -> dict[str, object]:
        return {**asdict(self), "todo": list(self.todo), "after": None if self.after is None else list(self.after)}

    def next(self, chunk: Chunk, limit: int, database: Database) -> SnapshotState:
        """The state after this chunk of the first table."""
        table, *others = self.todo
        begins = self.after is None
        rows = len(chunk.rows) + (0 if begins else self.rows)
        of = estimated_rows(database, table) if begins else self.of
        is_done = len(chunk.rows) < limit
        return SnapshotState(
            todo=tuple(others) if is_done else self.todo,
            after=None if is_done else tuple(chunk.last_key()),
            chunk=self.chunk + 1,
            rows=rows,
            of=rows if is_done else of,
            table=table,
            request=self.request,
        )


_REQUEST: Final = "request.json"


@dataclass(frozen=True)
class SnapshotFolder:
    """Chunks of batches that Spark has not finished, so that a repeated batch has the same rows; and the request for
    another snapshot. Without a local storage there are none: a batch that is repeated after a crash reads its chunk
    again."""

    path: Path | None
    made: list[int] = field(default_factory=list)

    def write(self, number: int, chunk: Chunk) -> None:
        if self.path is not None:
            _write_json(self.path / f"{number}.json", asdict(chunk))

    def read(self, number: int) -> Chunk | None:
        file = self.path / f"{number}.json" if self.path is not None else None
        if file is None or not file.exists():
            return None
        data = json.loads(file.read_text())
        return Chunk(data["table"], data["position"], tuple(data["key"]), data["rows"])

    def forget(self, state: SnapshotState) -> None:
        """Removes the chunks up to this one, and the request that has begun."""
        if self.path is None or not self.path.is_dir():
            return
        for file in self.path.glob("*.json"):
            if file.stem.isdigit() and int(file.stem) <= state.chunk:
                file.unlink(missing_ok=True)
        request = self.request()
        if request is not None and request[0] == state.request:
            (self.path / _REQUEST).unlink(missing_ok=True)

    def request(self) -> tuple[str, tuple[str, ...]] | None:
        """(id, tables) of a request that no batch has finished yet."""
        file = self.path / _REQUEST if self.path is not None else None
        if file is None or not file.exists():
            return None
        data = json.loads(file.read_text())
        return str(data["id"]), tuple(data["tables"])

    def ask(self, identity: str, tables: Sequence[str]) -> None:
        assert self.path is not None
        _write_json(self.path / _REQUEST, {"id": identity, "tables": list(tables)})


def _write_json(file: Path, data: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    with fresh.open("w") as out:
        json.dump(data, out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
