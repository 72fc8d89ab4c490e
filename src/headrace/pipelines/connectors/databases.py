"""Databases that connectors read and write: PostgreSQL and SQLite, through their Python drivers, without a jar. MariaDB
and MySQL are sources only (see `mysql_connection`).

    postgresql://user:password@host/database        sqlite:///relative.db        sqlite:////absolute.db

`Database` hides the differences between the two: connections, quoting, parameter marks, upserts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from headrace.pipelines.connectors.mysql_connection import SCHEMES, MySqlConnection, is_mysql, spark_type
from headrace.pipelines.errors import OptionError, PipelineError

LEDGER: Final = "_headrace_ledger"


# A value has the type of its column, which is known only when the query runs.
DatabaseRow: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """The part of DB-API 2.0 that connectors use."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Sequence[Sequence[Any]]: ...
    def __iter__(self) -> Iterator[DatabaseRow]: ...
    def execute(self, statement: str, values: Sequence[object] = ..., /) -> object: ...
    def executemany(self, statement: str, rows: Sequence[Sequence[object]], /) -> object: ...
    def fetchone(self) -> DatabaseRow | None: ...
    def fetchall(self) -> list[DatabaseRow]: ...


class Connection(Protocol):
    def execute(self, statement: str, values: Sequence[object] = ..., /) -> Cursor: ...
    def cursor(self) -> Cursor: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class PostgresConnection(Connection, Protocol):
    def execute(self, statement: str, values: Sequence[object] = ..., /, *, binary: bool = False) -> Cursor: ...


def only_row(cursor: Cursor) -> DatabaseRow:
    """The only row of a query that always returns one."""
    row = cursor.fetchone()
    assert row is not None, "the query has one row"
    return row


@dataclass(frozen=True)
class Database:
    url: str

    def __post_init__(self) -> None:
        if not self.url.startswith(("postgresql://", "postgres://", "sqlite:///", *SCHEMES)):
            raise OptionError(f"url {self.url!r}: must begin with postgresql:// or sqlite:/// or mysql://")

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    @property
    def is_postgres(self) -> bool:
        return not self.is_sqlite and not self.is_mysql

    @property
    def is_mysql(self) -> bool:
        return is_mysql(self.url)

    @property
    def mark(self) -> str:
        """Mark of a parameter in SQL text."""
        return "?" if self.is_sqlite else "%s"

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in a transaction: committed at the end, rolled back on an error."""
        connection = self.open()
        try:
            yield connection
            connection.commit()
        except BaseException:
            # For every exception, interrupts included: never commit a part of the changes.
            connection.rollback()
            raise
        finally:
            connection.close()

    def open(self) -> Connection:
        """A connection that the caller closes."""
        if self.is_sqlite:
            try:
                file: Connection = sqlite3.connect(self.url[len("sqlite:///") :], timeout=30)
            except sqlite3.Error as error:
                raise PipelineError(f"{self.url}: {error}") from error
            return file
        if self.is_mysql:
            return MySqlConnection(self.url)
        import psycopg

        try:
            server: Connection = psycopg.connect(self.url, connect_timeout=10)
        except psycopg.Error as error:
            # The url contains the password, so the message has only the server's text.
            raise PipelineError(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}") from error
        return server

    def as_text(self, column: str) -> str:
        """SQL of a column as text, for types that Spark lacks. SQLite gives its values as they are."""
        if self.is_mysql:
            return f"CAST({quoted(column)} AS CHAR)"
        return quoted(column) if self.is_sqlite else f"{quoted(column)}::text"

    def columns(self, table: str, within: Connection | None = None) -> dict[str, str]:
        """Column names with their Spark types. Raises PipelineError if the table does not exist. `within` sees the
        changes of its own transaction."""
        with nullcontext(within) if within is not None else self.connect() as connection:
            if self.is_sqlite:
                rows = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
                found = {row[1]: _sqlite_type(row[2]) for row in rows}
            elif self.is_mysql:
                rows = connection.execute(
                    "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale FROM "
                    "information_schema.columns WHERE table_schema = database() AND table_name = %s "
                    "ORDER BY ordinal_position",
                    (table.rpartition(".")[2],),
                ).fetchall()
                found = {row[0]: spark_type(row[1], row[2], row[3], row[4]) for row in rows}
            else:
                schema, _, name = table.rpartition(".")
                rows = connection.execute(
                    "SELECT column_name, data_type, numeric_precision, numeric_scale FROM information_schema.columns "
                    "WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), current_schema()) "
                    "ORDER BY ordinal_position",
                    (name, schema),
                ).fetchall()
                found = {row[0]: _postgres_type(row[1], row[2], row[3]) for row in rows}
        if not found:
            raise PipelineError(f"table {table!r} does not exist")
        return found

    def primary_key(self, connection: Connection, table: str) -> list[str]:
        if self.is_sqlite:
            rows = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
            return [row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5]]
        if self.is_mysql:
            rows = connection.execute(
                "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = database() "
                "AND table_name = %s AND constraint_name = 'PRIMARY' ORDER BY ordinal_position",
                (table.rpartition(".")[2],),
            ).fetchall()
            return [row[0] for row in rows]
        rows = connection.execute(
            "SELECT a.attname FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
            "WHERE i.indrelid = to_regclass(%s) AND i.indisprimary "
            "ORDER BY array_position(i.indkey::int[], a.attnum::int)",
            # In quotes, or PostgreSQL takes capitals for small letters.
            (quoted(table),),
        ).fetchall()
        return [row[0] for row in rows]

    def upsert_sql(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        names = ", ".join(quoted(name) for name in columns)
        marks = ", ".join([self.mark] * len(columns))
        statement = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"
        if not keys:
            return statement
        others = [name for name in columns if name not in keys]
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        target = ", ".join(quoted(name) for name in keys)
        return f"{statement} ON CONFLICT ({target}) DO " + (f"UPDATE SET {changes}" if others else "NOTHING")

    def update_sql(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        changes = ", ".join(f"{quoted(name)} = {self.mark}" for name in columns)
        return f"UPDATE {quoted(table)} SET {changes} WHERE {self._equal(keys)}"

    def delete_sql(self, table: str, keys: Sequence[str]) -> str:
        return f"DELETE FROM {quoted(table)} WHERE {self._equal(keys)}"

    def _equal(self, keys: Sequence[str]) -> str:
        return " AND ".join(f"{quoted(key)} = {self.mark}" for key in keys)

    def claim_batch(self, connection: Connection, name: str, batch: int) -> bool:
        """Records in the transaction that `name` writes this batch. Returns False if `name` has written it before."""
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {LEDGER} (name VARCHAR(255) PRIMARY KEY, batch BIGINT NOT NULL)"
        )
        # One statement checks and inserts: a second writer of the same batch waits for the first, then finds its row.
        statement = f"{self.upsert_sql(LEDGER, ['name', 'batch'], ['name'])} WHERE {LEDGER}.batch < excluded.batch"
        return int(connection.execute(statement, (name, batch)).rowcount) == 1


def quoted(name: str) -> str:
    """An identifier, with its schema if it has one, quoted for both databases."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _sqlite_type(declared: str) -> str:
    # SQLite's affinity rules: the declared type contains one of these words.
    kind = declared.upper()
    if "INT" in kind:
        return "bigint"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")) or kind in ("DATE", "DATETIME", "TIMESTAMP"):
        return "string"
    if "BLOB" in kind or not kind:
        return "binary"
    return "double"


def _postgres_type(kind: str, precision: int | None, scale: int | None) -> str:
    simple = {
        "smallint": "int",
        "integer": "int",
        "bigint": "bigint",
        "real": "double",
        "double precision": "double",
        "boolean": "boolean",
        "date": "date",
        "timestamp without time zone": "timestamp",
        "timestamp with time zone": "timestamp",
        "bytea": "binary",
    }
    if kind == "numeric":
        return f"decimal({precision}, {scale or 0})" if precision else "decimal(38, 10)"
    return simple.get(kind, "string")
