"""Targets of connectors: a topic, files, a Delta table, a database table, the console.

Every target writes a batch once, even if Spark repeats it. Topics use the sink's ledger, Parquet uses Spark's file log,
Delta uses the transaction version in its log, databases use a ledger row in the same transaction as the rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.pipelines.output import Output, Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import functions as f

from headrace.pipelines.connectors.connector import TARGETS, ConnectorSpec
from headrace.pipelines.connectors.databases import Connection, Cursor, Database, DatabaseRow, quoted
from headrace.pipelines.connectors.delta_files import delta_writer
from headrace.pipelines.connectors.evolution import columns_of_changes, evolve
from headrace.pipelines.connectors.scd_targets import SETTINGS as SCD
from headrace.pipelines.connectors.scd_targets import scd_target
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.connectors.staged_rows import StagedTable
from headrace.pipelines.errors import FlowStopped, OptionError
from headrace.pipelines.flows.graph import DELETED, BatchSink
from headrace.pipelines.schemas.registry_options import REGISTRY_OPTIONS as REGISTRY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from headrace.pipelines.connectors.cdc.change_records import ChangeRecords

_ROWS_AT_ONCE: Final = 1000
_FILE: Final = re.compile(r"[^{}\s]+\.(avsc|json|proto)")
_CHANGE_COLUMNS: Final = {"op", "table", "before", "after"}


def target_output(spec: ConnectorSpec) -> tuple[Output, Callable[[DataFrame], DataFrame]]:
    """The target, and the function that converts rows for it."""
    at = SourceCodeLocation(filename=spec.file.name, line_number=None)
    end = spec.target
    match end.kind:
        case "topic":
            own = ("tombstones", "envelope") if _is_changes(spec) else ()
            end.only("name", "key", "value", "encode", "schema", "subjectStrategy", *REGISTRY, "options", *own)
            if not spec.bootstrap:
                raise OptionError(f'{end.place}: say which brokers: "bootstrap" in the file, or --bootstrap')
            given = {**spec.brokers, "topic": end.text("name"), **end.options()}
            encoding = _encoding(spec, end)
            if _is_changes(spec) and "value" not in end.settings:
                return Sink(spec.name, None, at, "headrace", given), _changes_to_topic(spec, encoding)
            given |= encoding
            return Sink(spec.name, None, at, "headrace", given), lambda frame: topic_rows(frame, end)
        case "parquet":
            end.only("path", "options")
            path = _path(spec, end)
            fit_files = partial(_fit_parquet, path=path, place=end.place)
            return Sink(spec.name, None, at, "parquet", {"path": path, **end.options()}), fit_files
        case "delta":
            if "scd" in end.settings:
                end.only("path", "evolve", *SCD)
                changes, fit = scd_target(spec, _path(spec, end))
                return BatchSink(spec.name, None, at, changes), fit
            end.only("path", "evolve")
            write = delta_writer(_path(spec, end), spec.name, evolves=end.is_on("evolve"))
            return BatchSink(spec.name, None, at, write), _without_deletes
        case "jdbc":
            if "scd" in end.settings:
                end.only("url", "table", "evolve", *SCD)
                changes, fit = scd_target(spec, None)
                return BatchSink(spec.name, None, at, changes), fit
            end.only("url", "table", "keys", "evolve")
            if Database(end.text("url")).is_mysql:
                raise OptionError(f"{end.place}: MariaDB and MySQL are sources only: write to PostgreSQL or SQLite")
            if "table" not in end.settings and spec.source.kind != "cdc":
                raise OptionError(f'{end.place}: "table" is missing')
            table = end.text("table") if "table" in end.settings else None
            database, evolves = Database(end.text("url")), end.is_on("evolve")
            write = table_writer(database, table, end.names("keys"), spec.name, evolves=evolves)
            return BatchSink(spec.name, None, at, write), _as_is
    if end.kind not in TARGETS:
        return _plugin_output(spec, at)
    end.only()
    return BatchSink(spec.name, None, at, lambda frame, _batch: frame.show(truncate=False)), _as_is


def _plugin_output(spec: ConnectorSpec, at: SourceCodeLocation) -> tuple[Output, Callable[[DataFrame], DataFrame]]:
    from headrace.pipelines.plugins.plugin_target import plugin_writer

    sink, write = plugin_writer(spec.target, spec.name, spec.checkpoint)
    return BatchSink(spec.name, None, at, write), _with_keys if sink.takes_deletes else _without_deletes


def _with_keys(frame: DataFrame) -> DataFrame:
    """Rows and tombstones; `_key` is the key of the record."""
    if "_source" not in frame.columns:
        return frame
    return frame.withColumn("_key", _record_key()).drop("_source")


def _is_changes(spec: ConnectorSpec) -> bool:
    """Whether the rows are the changes of a database as they are."""
    return spec.source.kind == "cdc" and spec.select is None


def _changes_to_topic(spec: ConnectorSpec, encoding: dict[str, str]) -> Callable[[DataFrame], DataFrame]:
    from headrace.pipelines.connectors.cdc.change_topics import record_changes, topic_changes

    end = spec.target
    tombstones = end.is_on("tombstones", default=True)
    if end.text("key", "key") != "key":
        raise OptionError(f'{end.place}: the key of a change is the key of its row: leave "key" out')
    if not encoding:
        envelope = end.text("envelope", "headrace")
        return lambda frame: topic_changes(frame, tombstones=tombstones, envelope=envelope, place=end.place)
    if "envelope" in end.settings:
        raise OptionError(f'{end.place}: "envelope" does not go with "encode": the records have a schema')
    records = _change_records(spec, encoding)
    return lambda frame: records.encoded(record_changes(frame, tombstones=tombstones))


def _encoding(spec: ConnectorSpec, end: End) -> dict[str, str]:
    """Options of the sink if the target has a schema. `schema` is a file beside the connector, a text, or `latest`."""
    if "encode" not in end.settings and "schema" not in end.settings:
        return {}
    names = ("schema", "subjectStrategy", *REGISTRY)
    found = {"encode": "avro", **{name: end.text(name) for name in ("encode", *names) if name in end.settings}}
    file = spec.file.parent.resolve() / found["schema"] if _FILE.fullmatch(found.get("schema", "")) else None
    if file is not None:
        if not file.is_file():
            raise OptionError(f"{end.place}: schema: {file} does not exist")
        kinds = {".proto": "protobuf", ".json": "json"}
        found = {**found, "encode": end.text("encode", kinds.get(file.suffix, "avro")), "schema": file.read_text()}
    return found


def _change_records(spec: ConnectorSpec, given: dict[str, str]) -> ChangeRecords:
    from headrace.pipelines.connectors.cdc.change_records import ChangeRecords
    from headrace.pipelines.schemas.encoding import Encoding

    if "schema" in given:
        raise OptionError(f'{spec.target.place}: "schema" does not go with cdc: the database has it. Give "encode"')
    tables = tuple(spec.source.names("tables"))
    return ChangeRecords(Encoding.from_options(given), spec.source.text("url"), tables, spec.target.text("name"))


def _as_is(frame: DataFrame) -> DataFrame:
    return frame


def _without_deletes(frame: DataFrame) -> DataFrame:
    """For files, which are only appended to."""
    return frame.where(f"NOT {DELETED}").drop(DELETED) if DELETED in frame.columns else frame


def _fit_parquet(frame: DataFrame, *, path: str, place: str) -> DataFrame:
    """Files of one directory may have different columns, but a column has one type: readers could not merge them. No
    column is required: readers would miss it in files that are older than the column."""
    rows = _without_deletes(frame)
    for field in rows.schema.fields:
        if not field.nullable:
            # A value that was found in a map may be null. Spark does not simplify this, as it does `when(true, …)`.
            found = f.try_element_at(f.create_map(f.lit(0), f.col(f"`{field.name}`")), f.lit(0))
            rows = rows.withColumn(field.name, found)
    try:
        files = frame.sparkSession.read.option("mergeSchema", "true").parquet(path).schema
    except AnalysisException:
        return rows  # There are no files yet.
    known = {field.name: field.dataType.simpleString() for field in files.fields}
    for field in rows.schema.fields:
        kind = field.dataType.simpleString()
        if known.get(field.name, kind) != kind:
            raise FlowStopped(
                f"{place}: column {field.name!r} of the files in {path} is {known[field.name]}, but the rows have "
                f"{kind}: cast it in select, or write to a new path"
            )
    return rows


def _path(spec: ConnectorSpec, end: End) -> str:
    path = end.text("path")
    return path if "://" in path or Path(path).is_absolute() else str(spec.file.parent.resolve() / path)


def topic_rows(frame: DataFrame, end: End) -> DataFrame:
    """`key` and `value` for the sink. The value is a single column as it is, or all columns as JSON, or as a struct
    that the sink encodes."""
    columns = [name for name in frame.columns if not name.startswith("_")]
    is_encoded = "encode" in end.settings or "schema" in end.settings
    if "value" in end.settings:
        if (value := end.text("value")) not in frame.columns:
            raise OptionError(f"{end.place}: value {value!r} is not a column; there are {', '.join(columns)}")
        body = f.col(value)
    elif is_encoded:
        body = f.struct(*[name for name in columns if name != "key"])
    elif columns == ["value"] or {"key", "value"} >= set(columns):
        body = f.col("value")
    else:
        body = f.to_json(f.struct(*columns), {"ignoreNullFields": "false"})
    value = body if is_encoded else body.cast("string")
    passes_deletes = {DELETED, "_source"} <= set(frame.columns)
    if passes_deletes:
        value = f.when(~f.col(DELETED), value)
    chosen = [value.alias("value")]
    key = end.text("key") if "key" in end.settings else "key" if "key" in columns else None
    if key is not None:
        if key not in frame.columns:
            raise OptionError(f"{end.place}: key {key!r} is not a column; there are {', '.join(columns)}")
        name = f.col(key).cast("string")
        chosen.append((f.coalesce(name, _record_key()) if passes_deletes else name).alias("key"))
    elif passes_deletes:
        chosen.append(_record_key().alias("key"))
    return frame.select(*chosen)


def _record_key() -> Column:
    return f.col("_source.key").cast("string")


def table_writer(
    database: Database, table: str | None, keys: list[str], name: str, *, evolves: bool = False
) -> Callable[[DataFrame, int], None]:
    """Upserts rows. Applies changes instead if the rows come from change data capture. With `evolves`, the table gets
    columns that it lacks."""

    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        is_changes = set(frame.columns) >= _CHANGE_COLUMNS
        if not is_changes and not database.is_sqlite:
            _write_from_tasks(database, table, keys, f"{name}-{query}", frame, batch, evolves=evolves)
            return
        rows = frame.collect()
        with database.connect() as connection:
            if rows and database.claim_batch(connection, f"{name}-{query}", batch):
                if evolves:
                    _evolve(database, connection, table, frame, rows, is_changes=is_changes)
                if is_changes:
                    _apply_changes(database, connection, sorted(rows, key=lambda r: (r.position, r.number)), table)
                else:
                    _upsert(database, connection, table, keys, frame.columns, rows)

    return write


def _write_from_tasks(
    database: Database, table: str | None, keys: list[str], ledger: str, frame: DataFrame, batch: int, *, evolves: bool
) -> None:
    if table is None:
        raise OptionError('to.jdbc: "table" is missing')
    if evolves:
        # Before the rows, because the staging table has the columns of the target.
        with database.connect() as connection:
            _evolve(database, connection, table, frame, [], is_changes=False)
    if {DELETED, "_source"} <= set(frame.columns) and len(keys) == 1:
        # A tombstone has no columns. The key of its record is the key of the row.
        (key,) = keys
        named = f.when(f.col(DELETED), _record_key()).otherwise(f.col(key).cast("string"))
        frame = frame.withColumn(key, named)
    frame = frame.drop("_source")
    StagedTable(database, table, tuple(keys), ledger).write(frame, batch)


def _evolve(
    database: Database,
    connection: Connection,
    table: str | None,
    frame: DataFrame,
    rows: list[Row],
    *,
    is_changes: bool,
) -> None:
    if not is_changes:
        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        evolve(database, connection, table or "", {n: k for n, k in kinds.items() if n not in (DELETED, "_source")})
        return
    for target in {table or row.table.split(".")[-1] for row in rows}:
        texts = [row.after for row in rows if table is not None or row.table.split(".")[-1] == target]
        known = database.columns(target)
        columns = columns_of_changes(texts)
        evolve(database, connection, target, {n: k for n, k in columns.items() if n not in known})


def _upsert(
    database: Database, connection: Connection, table: str | None, keys: list[str], columns: list[str], rows: list[Row]
) -> None:
    if table is None:
        raise OptionError('to.jdbc: "table" is missing')
    cursor = connection.cursor()
    places = [at for at, name in enumerate(columns) if name not in (DELETED, "_source")]
    statement = database.upsert_sql(table, [columns[at] for at in places], keys)
    passes_deletes = {DELETED, "_source"} <= set(columns)
    waiting: list[DatabaseRow] = []

    def flush() -> None:
        for begin in range(0, len(waiting), _ROWS_AT_ONCE):
            cursor.executemany(statement, waiting[begin : begin + _ROWS_AT_ONCE])
        waiting.clear()

    for row in rows:
        if passes_deletes and row[DELETED]:
            # In order: the same key may be written, deleted and written again in one batch.
            flush()
            _delete(database, cursor, table, keys, row)
        else:
            waiting.append(tuple(row[at] for at in places))
    flush()


def _delete(database: Database, cursor: Cursor, table: str, keys: list[str], row: Row) -> None:
    """Deletes the row that a tombstone names by the key of its record."""
    if len(keys) != 1:
        raise OptionError(
            'to.jdbc: a tombstone names one key column: set "keys" to it, or leave _deleted out in select'
        )
    cursor.execute(database.delete_sql(table, keys), (bytes(row["_source"]["key"] or b"").decode(errors="replace"),))


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
