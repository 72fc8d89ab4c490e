"""Targets of connectors: a topic, files, a Delta table, a database table, the console.

Every target writes a batch once, even if Spark repeats it. Topics use the sink's ledger, Parquet uses Spark's file log,
Delta uses the transaction version in its log, databases use a ledger row in the same transaction as the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import Output, Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import functions as f

from headrace.pipelines.connectors.connector import ConnectorSpec, End
from headrace.pipelines.connectors.databases import Connection, Database, quoted
from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.graph import BatchSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_ROWS_AT_ONCE: Final = 1000
_CHANGE_COLUMNS: Final = {"op", "table", "before", "after"}


def target_output(spec: ConnectorSpec) -> tuple[Output, Callable[[DataFrame], DataFrame]]:
    """The target, and the function that converts rows for it."""
    at = SourceCodeLocation(filename=spec.file.name, line_number=None)
    end = spec.target
    match end.kind:
        case "topic":
            end.only("name", "key", "value", "options")
            if not spec.bootstrap:
                raise OptionError(f'{end.place}: say which brokers: "bootstrap" in the file, or --bootstrap')
            given = {**spec.brokers, "topic": end.text("name"), **end.options()}
            return Sink(spec.name, None, at, "headrace", given), lambda frame: topic_rows(frame, end)
        case "parquet":
            end.only("path", "options")
            return Sink(spec.name, None, at, "parquet", {"path": _path(spec, end), **end.options()}), _as_is
        case "delta":
            end.only("path")
            return BatchSink(spec.name, None, at, delta_writer(_path(spec, end), spec.name)), _as_is
        case "jdbc":
            end.only("url", "table", "keys")
            if "table" not in end.settings and spec.source.kind != "cdc":
                raise OptionError(f'{end.place}: "table" is missing')
            table = end.text("table") if "table" in end.settings else None
            write = table_writer(Database(end.text("url")), table, end.names("keys"), spec.name)
            return BatchSink(spec.name, None, at, write), _as_is
    end.only()
    return BatchSink(spec.name, None, at, lambda frame, _batch: frame.show(truncate=False)), _as_is


def _as_is(frame: DataFrame) -> DataFrame:
    return frame


def _path(spec: ConnectorSpec, end: End) -> str:
    path = end.text("path")
    return path if "://" in path or Path(path).is_absolute() else str(spec.file.parent.resolve() / path)


def topic_rows(frame: DataFrame, end: End) -> DataFrame:
    """`key` and `value` for the sink. The value is a single column as it is, or all columns as JSON."""
    columns = [name for name in frame.columns if not name.startswith("_")]
    if "value" in end.settings:
        if (value := end.text("value")) not in frame.columns:
            raise OptionError(f"{end.place}: value {value!r} is not a column; there are {', '.join(columns)}")
        body = f.col(value)
    elif columns == ["value"] or {"key", "value"} >= set(columns):
        body = f.col("value")
    else:
        body = f.to_json(f.struct(*columns), {"ignoreNullFields": "false"})
    chosen = [body.cast("string").alias("value")]
    key = end.text("key") if "key" in end.settings else "key" if "key" in columns else None
    if key is not None:
        if key not in frame.columns:
            raise OptionError(f"{end.place}: key {key!r} is not a column; there are {', '.join(columns)}")
        chosen.append(f.col(key).cast("string").alias("key"))
    return frame.select(*chosen)


def delta_writer(path: str, name: str) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        application = f"{name}-{frame.sparkSession.sparkContext.getLocalProperty('sql.streaming.queryId')}"
        if DeltaTable.is_deltatable(path):
            done = DeltaTable(path).transaction_version(application)
            if done is not None and done >= batch:
                return
        rows = frame.toArrow()
        if rows.num_rows:
            properties = CommitProperties(app_transactions=[Transaction(application, batch)])
            write_deltalake(path, rows, mode="append", commit_properties=properties)

    return write


def table_writer(database: Database, table: str | None, keys: list[str], name: str) -> Callable[[DataFrame, int], None]:
    """Upserts rows. Applies changes instead if the rows come from change data capture."""

    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        is_changes = set(frame.columns) >= _CHANGE_COLUMNS
        rows = frame.collect()
        with database.connect() as connection:
            if rows and database.claim_batch(connection, f"{name}-{query}", batch):
                if is_changes:
                    _apply_changes(database, connection, sorted(rows, key=lambda r: (r.position, r.number)), table)
                else:
                    _upsert(database, connection, table, keys, frame.columns, rows)

    return write


def _upsert(
    database: Database, connection: Connection, table: str | None, keys: list[str], columns: list[str], rows: list[Row]
) -> None:
    if table is None:
        raise OptionError('to.jdbc: "table" is missing')
    statement = database.upsert_sql(table, columns, keys)
    cursor = connection.cursor()
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        cursor.executemany(statement, [tuple(row) for row in rows[begin : begin + _ROWS_AT_ONCE]])


def _apply_changes(database: Database, connection: Connection, rows: list[Row], table: str | None) -> None:
    """Applies changes in order, each to the table with the same name, or all to `table` if it is given."""
    cursor = connection.cursor()
    for row in rows:
        target = table or row.table.split(".")[-1]
        if row.op == "truncate":
            cursor.execute(f"DELETE FROM {quoted(target)}")
            continue
        key = json.loads(row.key)
        before = json.loads(row.before) if row.before else {}
        # An update may have changed the key: find the row by the old key.
        old_key = tuple(before.get(name, value) for name, value in key.items())
        if row.op == "delete":
            cursor.execute(database.delete_sql(target, list(key)), old_key)
            continue
        after = json.loads(row.after)
        if row.op == "update":
            # Only columns that were sent: an unchanged large value is not in `after`.
            cursor.execute(database.update_sql(target, list(after), list(key)), (*after.values(), *old_key))
            if cursor.rowcount:
                continue
        cursor.execute(database.upsert_sql(target, list(after), list(key)), tuple(after.values()))
