"""Change logs of databases: PostgreSQL's logical replication slot, a trigger table in SQLite, MariaDB's binary log (see
`binlog`).

A change log has three operations: `latest` returns its end; reading (start, end] returns the same changes each time;
`forget` lets the database delete changes that were processed. Positions are integers: an LSN or a sequence number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, cast

from headrace.pipelines.connectors.cdc.binlog import BinlogChanges
from headrace.pipelines.connectors.cdc.pgoutput import TEXT_SETTINGS, Change, PgOutput, lsn_from_text, lsn_to_text
from headrace.pipelines.connectors.databases import Connection, Database, PostgresConnection, only_row, quoted
from headrace.pipelines.errors import DataLossError, PipelineError

_PEEK = (
    "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL, 'proto_version', '1', 'publication_names', %s)"
)
# A function of SQLite takes at most 127 arguments, 100 in older versions.
_COLUMNS_AT_ONCE: Final = 50
_READERS: Final = "_headrace_readers"
_CREATE_READERS: Final = f"CREATE TABLE IF NOT EXISTS {_READERS} (name TEXT PRIMARY KEY, seq INTEGER NOT NULL)"
_BEGIN_ANEW: Final = "Copy the tables, then start with a storage of its own (or delete the old one)"


class ChangeLog(Protocol):
    @property
    def database(self) -> Database: ...

    @property
    def unit(self) -> str:
        """What positions count: `bytes` of a log, or `changes`."""

    def prepare(self) -> int:
        """Makes the database keep its changes from now on. Returns the position before the first change."""

    def resume(self) -> None:
        """Follows the tables and columns that came since the last start. Tables that are gone are left out."""

    def latest(self) -> int: ...

    def server(self) -> str | None:
        """Names the server if the logs of two servers have different changes at one position."""

    def check(self, start: int, server: str | None = None) -> None:
        """Raises DataLossError if the log no longer has all changes after `start`, or is not that of `server`."""

    def behind(self, taken: int, latest: int) -> int:
        """How much of the log is between two positions, in `unit`."""

    def changes(self, start: int, end: int) -> Iterator[Change]: ...

    def forget(self, until: int) -> None: ...


@dataclass(frozen=True)
class PostgresChanges:
    """Logical decoding with pgoutput through SQL functions: `peek` reads without consuming, `advance` consumes."""

    database: Database
    tables: tuple[str, ...]
    slot: str
    unit: str = "bytes"

    def prepare(self) -> int:
        with self.database.connect() as connection:
            (level,) = only_row(connection.execute("SHOW wal_level"))
            if level != "logical":
                raise PipelineError(
                    f"PostgreSQL's wal_level is {level!r}: set wal_level = logical and restart the server"
                )
            found = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self.slot,)).fetchone()
            if found is None:
                names = ", ".join(quoted(table) for table in self.tables)
                connection.execute(f"CREATE PUBLICATION {quoted(self.slot)} FOR TABLE {names}")
        with self.database.connect() as connection:
            query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
            found = connection.execute(query, (self.slot,)).fetchone()
            if found is None:
                query = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
                found = only_row(connection.execute(query, (self.slot,)))
        return lsn_from_text(found[0])

    def resume(self) -> None:
        with self.database.connect() as connection:
            if added := [table for table in self.tables if not self._publishes(connection, table)]:
                names = ", ".join(quoted(table) for table in added)
                connection.execute(f"ALTER PUBLICATION {quoted(self.slot)} ADD TABLE {names}")

    def _publishes(self, connection: Connection, table: str) -> bool:
        # A publication of all tables or of a schema has no entry for a table, and the view has partitions only. A table
        # that was dropped has nothing more to publish.
        query = (
            "SELECT 1 FROM pg_publication AS p, to_regclass(%s) AS wanted WHERE pubname = %s AND (puballtables "
            "OR wanted IS NULL OR EXISTS (SELECT 1 FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = wanted) "
            "OR EXISTS (SELECT 1 FROM pg_publication_tables AS t WHERE t.pubname = p.pubname "
            "AND to_regclass(format('%%I.%%I', schemaname, tablename)) = wanted))"
        )
        return connection.execute(query, (quoted(table), self.slot)).fetchone() is not None

    def latest(self) -> int:
        with self.database.connect() as connection:
            (lsn,) = only_row(connection.execute("SELECT pg_current_wal_flush_lsn()::text"))
        return lsn_from_text(lsn)

    def server(self) -> None:
        """A slot does not exist on another server."""

    def check(self, start: int, server: str | None = None) -> None:
        # `prepare` creates a dropped slot again. The new slot lacks the changes made in between.
        with self.database.connect() as connection:
            query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
            found = connection.execute(query, (self.slot,)).fetchone()
        if found is None or lsn_from_text(found[0]) > start:
            begins = "is gone" if found is None else f"begins at {found[0]}"
            raise DataLossError(
                f"PostgreSQL's slot {self.slot!r} {begins}, but changes were taken up to {lsn_to_text(start)} only: "
                f"those between are lost. {_BEGIN_ANEW}"
            )

    def behind(self, taken: int, latest: int) -> int:
        return latest - taken

    def changes(self, start: int, end: int) -> Iterator[Change]:
        decoder = PgOutput()
        keys: dict[str, tuple[str, ...]] = {}
        with self.database.connect() as connection:
            server = cast("PostgresConnection", connection)
            for setting in TEXT_SETTINGS:
                server.execute(f"SET LOCAL {setting}")
            for (data,) in server.execute(_PEEK, (self.slot, lsn_to_text(end), self.slot), binary=True):
                for change in decoder.feed(data):
                    if not start < change.lsn <= end:
                        continue
                    # With a full replica identity every column is marked as key. The catalogue has the real key.
                    if change.table not in keys:
                        keys[change.table] = tuple(self.database.primary_key(connection, change.table)) or change.key
                    yield replace(change, key=keys[change.table])

    def forget(self, until: int) -> None:
        # PostgreSQL flushes its log up to the end of a record, or of a page: a position at the end of a page may be
        # inside a commit. This transaction comes with the next batch, but a slot at this position would skip it. So
        # the slot stays where it is until a batch ends elsewhere.
        with self.database.connect() as connection:
            query = (
                "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
                "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn AND NOT active "
                "AND mod(%s::pg_lsn - '0/0'::pg_lsn, current_setting('wal_block_size')::numeric) <> 0"
            )
            at = lsn_to_text(until)
            connection.execute(query, (at, self.slot, at, at))


@dataclass(frozen=True)
class SqliteChanges:
    """Triggers on the tables write every change into a separate table, in the same transaction. The readers of a
    database share it: a change is deleted when the last of them has forgotten it."""

    database: Database
    tables: tuple[str, ...]
    name: str = "headrace"
    log_table: str = "_headrace_changes"
    unit: str = "changes"

    def prepare(self) -> int:
        with self.database.connect() as connection:
            if self._begins_at(connection) is None:
                for table in self.tables:
                    self.database.columns(table, connection)
        self.resume()
        with self.database.connect() as connection:
            seq = self._begins_at(connection)
        assert seq is not None, "the log knows its readers"
        return seq

    def resume(self) -> None:
        with self.database.connect() as connection:
            if self._begins_at(connection) is None or self._outdated(connection):
                # Python's module would commit each statement: rows written between DROP and CREATE would be lost.
                connection.execute("BEGIN IMMEDIATE")
                self._install(connection)

    def _begins_at(self, connection: Connection) -> int | None:
        """Up to where this reader has forgotten the log; None if the log does not know the reader."""
        if not self._has(connection, self.log_table) or not self._has(connection, _READERS):
            return None
        found = connection.execute(f"SELECT seq FROM {_READERS} WHERE name = ?", (self.name,)).fetchone()
        return None if found is None else int(found[0])

    def _install(self, connection: Connection) -> None:
        connection.execute(_CREATE_READERS)
        if not self._has(connection, self.log_table):
            connection.execute(f"DELETE FROM {_READERS}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self.log_table} "
            "(seq INTEGER PRIMARY KEY AUTOINCREMENT, tbl TEXT, op TEXT, before TEXT, after TEXT, "
            "at_ms INTEGER DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)))"
        )
        (first,) = only_row(connection.execute(f"SELECT min(seq) FROM {self.log_table}"))
        begin = self._last(connection) if first is None else first - 1
        connection.execute(f"INSERT INTO {_READERS} VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (self.name, begin))
        for name, statement in self._outdated(connection).items():
            connection.execute(f"DROP TRIGGER IF EXISTS {quoted(name)}")
            connection.execute(statement)

    def _has(self, connection: Connection, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return connection.execute(query, (table,)).fetchone() is not None

    def _outdated(self, connection: Connection) -> dict[str, str]:
        """Triggers that are missing, or lack columns that their table has now, with the statements that make them."""
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        there: dict[str, str] = dict(connection.execute(query).fetchall())
        wanted = {name: text for table in self.tables for name, text in self._triggers(connection, table)}
        return {name: text for name, text in wanted.items() if there.get(name) != text}

    def _triggers(self, connection: Connection, table: str) -> Iterator[tuple[str, str]]:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()]
        if not columns:
            return
        sides = {side: sqlite_row(columns, f"{side}.") for side in ("OLD", "NEW")}
        for operation, before, after in (
            ("insert", "NULL", sides["NEW"]),
            ("update", sides["OLD"], sides["NEW"]),
            ("delete", sides["OLD"], "NULL"),
        ):
            name = f"_headrace_{table}_{operation}"
            # SQLite keeps this text as it is.
            yield (
                name,
                f"CREATE TRIGGER {quoted(name)} AFTER {operation.upper()} ON {quoted(table)} BEGIN "
                f"INSERT INTO {self.log_table} (tbl, op, before, after) "
                f"VALUES ({_literal(table)}, '{operation}', {before}, {after}); END",
            )

    def latest(self) -> int:
        with self.database.connect() as connection:
            return self._last(connection)

    def _last(self, connection: Connection) -> int:
        found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self.log_table,)).fetchone()
        return int(found[0]) if found else 0

    def server(self) -> None:
        """A file."""

    def check(self, start: int, server: str | None = None) -> None:
        if (latest := self.latest()) < start:
            raise DataLossError(
                f"{self.log_table} ends at change {latest}, but {start} were taken: the database is not the one that "
                f"was followed. {_BEGIN_ANEW}"
            )

    def behind(self, taken: int, latest: int) -> int:
        return latest - taken

    def changes(self, start: int, end: int) -> Iterator[Change]:
        with self.database.connect() as connection:
            keys = {table: tuple(self.database.primary_key(connection, table)) for table in self.tables}
            columns = "seq, tbl, op, before, after, at_ms"
            query = f"SELECT {columns} FROM {self.log_table} WHERE seq > ? AND seq <= ? ORDER BY seq"
            for seq, table, operation, before, after, at_ms in connection.execute(query, (start, end)):
                # The log has the tables of all its readers.
                if table in keys:
                    yield Change(operation, table, _row(before), _row(after), keys[table], int(seq), 0, int(at_ms))

    def forget(self, until: int) -> None:
        with self.database.connect() as connection:
            connection.execute(_CREATE_READERS)
            connection.execute(
                f"INSERT INTO {_READERS} VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seq = max(seq, excluded.seq)",
                (self.name, until),
            )
            connection.execute(f"DELETE FROM {self.log_table} WHERE seq <= (SELECT min(seq) FROM {_READERS})")


def sqlite_row(columns: Sequence[str], side: str = "") -> str:
    """SQL of a row as a JSON object. JSON has neither bytes nor infinite numbers: they are text, as in PostgreSQL. With
    bytes `json_object` fails, in a trigger together with the statement of the application."""
    objects = []
    for begin in range(0, len(columns), _COLUMNS_AT_ONCE):
        pairs = []
        for column in columns[begin : begin + _COLUMNS_AT_ONCE]:
            value = f"{side}{quoted(column)}"
            pairs.append(
                f"{_literal(column)}, CASE WHEN typeof({value}) = 'blob' THEN '\\x' || lower(hex({value})) "
                f"WHEN typeof({value}) = 'real' AND {value} = 9e999 THEN 'Infinity' "
                f"WHEN typeof({value}) = 'real' AND {value} = -9e999 THEN '-Infinity' ELSE {value} END"
            )
        objects.append(f"json_object({', '.join(pairs)})")
    if len(objects) == 1:
        return objects[0]
    # No value is an object, so each text has these two brackets only.
    inner = " || ',' || ".join(f"trim({part}, '{{}}')" for part in objects)
    return f"'{{' || {inner} || '}}'"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _row(text: str | None) -> dict[str, object] | None:
    return None if text is None else json.loads(text)


def change_log(url: str, tables: Sequence[str], slot: str) -> ChangeLog:
    database = Database(url)
    if not tables:
        raise PipelineError("cdc: name the tables to follow")
    if database.is_sqlite:
        return SqliteChanges(database, tuple(tables), slot)
    if database.is_mysql:
        return BinlogChanges(database, tuple(tables), slot)
    return PostgresChanges(database, tuple(tables), slot)
