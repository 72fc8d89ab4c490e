"""Rows of a batch into a PostgreSQL table, written by the tasks of the batch and not through the driver.

Each task copies its rows (COPY) into a staging table. Then the driver claims the batch in the ledger and merges the
staging table into the target in one transaction. So a batch is in the table once and whole, or not at all.

The staging table is unlogged, because a logged one writes every row into the WAL, too. A crash or a failover of the
server empties an unlogged table, also of rows whose task has ended. So the driver counts the rows of every attempt
before it claims the batch. The count and the merge share a connection, which a crash would end.

A task may run more than once: after a failure, or speculatively. Every attempt writes its own number beside its rows,
and Spark gives the driver the number of the attempt that counts. Rows of other attempts are never merged. The staging
table has a random name, so an attempt that a killed driver left behind cannot write into the next one.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from headrace.kernel.plurals import counted
from headrace.pipelines.connectors.databases import Connection, Database, quoted
from headrace.pipelines.errors import OptionError, PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ATTEMPT: Final = "_headrace_attempt"
PLACE: Final = "_headrace_place"
DELETED: Final = "_deleted"
_COPIED: Final = "attempt bigint, rows bigint"
# Rows of a task are numbered below this. The number of the task is above it, so places follow the order of the batch.
_ROWS_PER_TASK: Final = 1 << 40
_PREFIX: Final = "_headrace_stage_"


class _Copy(Protocol):
    def write(self, data: bytes, /) -> None: ...
    def write_row(self, row: Sequence[object], /) -> None: ...


@dataclass(frozen=True)
class StagedTable:
    """Merges batches into `table`. With `keys` the last row of a key in a batch replaces the row of the table."""

    database: Database
    table: str
    keys: tuple[str, ...]
    name: str

    def write(self, frame: DataFrame, batch: int) -> None:
        """Writes the batch unless the ledger has it. A column `_deleted` marks rows whose key is deleted."""
        stage = self._create(frame.columns)
        try:
            copied = frame.mapInArrow(copying(self.database, stage, self.keys), _COPIED).collect()
            self.merge(stage, frame.columns, batch, {row.attempt: row.rows for row in copied if row.rows})
        finally:
            self._drop(stage)

    def merge(self, stage: str, columns: Sequence[str], batch: int, copied: Mapping[int, int]) -> None:
        """`copied` has the number of rows of each attempt that counts."""
        with self.database.connect() as connection:
            if copied:
                self._check_complete(connection, stage, copied)
                if self.database.claim_batch(connection, self.name, batch):
                    self._merge(connection, stage, columns, list(copied))

    def _check_complete(self, connection: Connection, stage: str, copied: Mapping[int, int]) -> None:
        query = f"SELECT {ATTEMPT}, count(*) FROM {quoted(stage)} WHERE {ATTEMPT} = ANY(%s) GROUP BY 1"
        found: dict[int, int] = dict(connection.execute(query, (list(copied),)).fetchall())
        if found != copied:
            raise PipelineError(
                f"PostgreSQL: the staging table of {self.table!r} has {counted(sum(found.values()), 'row')} of "
                f"{sum(copied.values())} that the tasks copied, as after a crash or a failover of the server: nothing "
                "of this batch is written, and the next start repeats it"
            )

    def _stage_prefix(self) -> str:
        return _PREFIX + hashlib.sha256(self.name.encode()).hexdigest()[:12]

    def _create(self, columns: Sequence[str]) -> str:
        """A staging table with the types of the target and without its constraints."""
        prefix, (schema, _, _) = self._stage_prefix(), self.table.rpartition(".")
        for old in self._left_behind(prefix):
            self._drop(old)
        stage = f"{schema + '.' if schema else ''}{prefix}_{secrets.token_hex(4)}"
        chosen = ", ".join(quoted(name) for name in columns if name != DELETED)
        marks = f"0::bigint AS {ATTEMPT}, 0::bigint AS {PLACE}"
        if DELETED in columns:
            marks += f", false AS {DELETED}"
        with self._naming_columns(columns), self.database.connect() as connection:
            connection.execute(
                f"CREATE UNLOGGED TABLE {quoted(stage)} AS "
                f"SELECT {chosen}, {marks} FROM {quoted(self.table)} WITH NO DATA"
            )
        return stage

    @contextmanager
    def _naming_columns(self, columns: Sequence[str]) -> Iterator[None]:
        """PostgreSQL names a column that does not exist, and not the table."""
        import psycopg

        try:
            yield
        except psycopg.errors.UndefinedColumn as error:
            known = self.database.columns(self.table)
            missing = next((name for name in columns if name not in (*known, DELETED)), None)
            if missing is None:
                raise
            words = f'PostgreSQL: column "{missing}" of relation "{self.table}" does not exist'
            raise PipelineError(words) from error

    def _left_behind(self, prefix: str) -> list[str]:
        query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE starts_with(tablename, %s)"
        with self.database.connect() as connection:
            return [str(row[0]) for row in connection.execute(query, (prefix,)).fetchall()]

    def _drop(self, stage: str) -> None:
        import psycopg

        # An attempt whose result does not count may still copy into the table. The next batch then drops it.
        with suppress(psycopg.errors.LockNotAvailable), self.database.connect() as connection:
            connection.execute("SET LOCAL lock_timeout = '2s'")
            connection.execute(f"DROP TABLE IF EXISTS {quoted(stage)}")

    def _merge(self, connection: Connection, stage: str, columns: Sequence[str], attempts: list[int]) -> None:
        connection.execute("SET LOCAL work_mem = '64MB'")
        names = ", ".join(quoted(name) for name in columns if name != DELETED)
        rows = f"SELECT * FROM {quoted(stage)} WHERE {ATTEMPT} = ANY(%s)"
        into = f"INSERT INTO {quoted(self.table)} ({names})"
        if not self.keys:
            kept = f" AND NOT {DELETED}" if DELETED in columns else ""
            connection.execute(f"{into} {rows.replace('*', names, 1)}{kept} ORDER BY {PLACE}", (attempts,))
            return
        key = ", ".join(quoted(name) for name in self.keys)
        others = [quoted(name) for name in columns if name not in (*self.keys, DELETED)]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        last = f"SELECT DISTINCT ON ({key}) * FROM ({rows}) AS r ORDER BY {key}, {PLACE} DESC"
        kept = ""
        if DELETED in columns:
            same = " AND ".join(f"t.{quoted(name)} = l.{quoted(name)}" for name in self.keys)
            connection.execute(
                f"DELETE FROM {quoted(self.table)} AS t USING ({last}) AS l WHERE l.{DELETED} AND {same}", (attempts,)
            )
            kept = f" WHERE NOT {DELETED}"
        connection.execute(
            f"{into} SELECT {names} FROM ({last}) AS l{kept} ON CONFLICT ({key}) DO "
            + (f"UPDATE SET {changes}" if changes else "NOTHING"),
            (attempts,),
        )


def copying(
    database: Database, stage: str, keys: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: copies a task's rows into the staging table. Returns the number of the attempt, and of rows."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "runs inside a task"
        attempt, place = int(task.taskAttemptId()), task.partitionId() * _ROWS_PER_TASK
        first = next(batches, None)
        rows = 0
        if first is not None:
            with database.connect() as connection:
                for batch in _chained(first, batches):
                    if batch.num_rows:
                        check_deletes(batch, keys)
                        copy_rows(connection, stage, batch, attempt, place + rows)
                        rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({"attempt": [attempt], "rows": [rows]})

    return copy


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def check_deletes(batch: pa.RecordBatch, keys: Sequence[str]) -> None:
    import pyarrow.compute as pc

    if DELETED in batch.schema.names and len(keys) != 1 and pc.any(batch.column(DELETED)).as_py():
        raise OptionError(
            'to.jdbc: a tombstone names one key column: set "keys" to it, or leave _deleted out in select'
        )


def copy_rows(connection: Connection, stage: str, batch: pa.RecordBatch, attempt: int, place: int) -> None:
    """One COPY. CSV made by Arrow takes a tenth of the time of rows made by Python. Nested values need the latter."""
    import pyarrow as pa

    count = batch.num_rows
    arrays = [
        *batch.columns,
        pa.array([attempt] * count, pa.int64()),
        pa.array(range(place, place + count), pa.int64()),
    ]
    names = [*batch.schema.names, ATTEMPT, PLACE]
    listed = ", ".join(quoted(name) for name in names)
    # psycopg's cursor has `copy`; the protocol of connections is what SQLite has, too.
    cursor = cast("Any", connection.cursor())
    if any(pa.types.is_nested(array.type) for array in arrays):
        with cursor.copy(f"COPY {quoted(stage)} ({listed}) FROM STDIN") as copy:
            _write_rows(copy, arrays)
        return
    with cursor.copy(f"COPY {quoted(stage)} ({listed}) FROM STDIN (FORMAT csv)") as copy:
        copy.write(csv_of([_as_text(array) for array in arrays], names))


def csv_of(arrays: list[pa.Array], names: list[str]) -> bytes:
    """Null is an empty field; an empty text is in quotes, as PostgreSQL reads them."""
    import pyarrow as pa
    import pyarrow.csv as pc

    out = io.BytesIO()
    pc.write_csv(pa.RecordBatch.from_arrays(arrays, names), out, pc.WriteOptions(include_header=False))
    return out.getvalue()


def _as_text(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return pa.array([None if value is None else "\\x" + value.hex() for value in array.to_pylist()], pa.string())
    if pa.types.is_decimal(array.type):
        return array.cast(pa.string())
    return array


def _write_rows(copy: _Copy, arrays: list[pa.Array]) -> None:
    from psycopg.types.json import Jsonb

    for row in zip(*[array.to_pylist() for array in arrays], strict=True):
        copy.write_row([Jsonb(value) if isinstance(value, dict) else value for value in row])
