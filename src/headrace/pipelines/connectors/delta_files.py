"""Rows of a batch into a Delta table: tasks write the Parquet files, the driver commits them.

A file is part of the table only after the commit names it. The commit also carries the number of the batch, so a
repeated batch is recognised. A failed or doubled task leaves a file that no version names; Delta's vacuum removes it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headrace.pipelines.connectors.delta_evolution import fit_delta_table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from pyspark.sql import DataFrame

_WRITTEN: Final = "path string, size bigint, stats string"
# Spark's Arrow batches have 10,000 rows. Files of this size compress well and fit into a worker's memory.
_ROWS_PER_FILE: Final = 500_000
_BOUNDED: Final = ("int", "double", "float", "string", "date", "timestamp")


def delta_writer(path: str, name: str, *, evolves: bool = False) -> Callable[[DataFrame, int], None]:
    """Appends. With `evolves`, columns that the table lacks are added."""

    def write(frame: DataFrame, batch: int) -> None:
        from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
        from pyspark.sql.pandas.types import to_arrow_schema

        application = f"{name}-{frame.sparkSession.sparkContext.getLocalProperty('sql.streaming.queryId')}"
        table = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
        if table is not None:
            done = table.transaction_version(application)
            if done is not None and done >= batch:
                return
        properties = CommitProperties(app_transactions=[Transaction(application, batch)])
        schema = Schema.from_arrow(_nullable(to_arrow_schema(frame.schema, timezone="UTC")))
        if "://" in path or (table is not None and not _same(table.schema(), schema)):
            # A changed schema is rare, and Delta's own writer adds columns.
            rows = frame.toArrow()
            if rows.num_rows:
                if table is not None:
                    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
                    fit_delta_table(table, rows.schema, kinds, evolves=evolves)
                mode = "merge" if evolves else None
                write_deltalake(path, rows, mode="append", schema_mode=mode, commit_properties=properties)
            return
        written = frame.mapInArrow(file_writer(path), _WRITTEN).collect()
        if written:
            table = table or DeltaTable.create(path, schema=schema, mode="ignore")
            _commit(table, [(row.path, row.size, row.stats) for row in written], properties)

    return write


def _commit(table: DeltaTable, files: list[tuple[str, int, str]], properties: object) -> None:
    from deltalake.transaction import AddAction

    now_ms = int(time.time() * 1000)
    actions = [AddAction(path, size, {}, now_ms, True, stats) for path, size, stats in files]
    table.create_write_transaction(actions, "append", table.schema(), [], commit_properties=properties)


def _same(one: Schema, other: Schema) -> bool:
    """Whether both have the same columns and types, in order. A table's column may forbid nulls."""

    def columns(schema: Schema) -> list[tuple[str, object]]:
        return [(field["name"], field["type"]) for field in json.loads(schema.to_json())["fields"]]

    return columns(one) == columns(other)


def _nullable(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(field.name, field.type, True) for field in schema])


def file_writer(path: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: writes a task's rows as Parquet files below the table's path. Returns their names and sizes."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
            if sum(one.num_rows for one in waiting) >= _ROWS_PER_FILE:
                yield pa.RecordBatch.from_pylist([write_file(path, pa.Table.from_batches(waiting))])
                waiting = []
        if waiting:
            yield pa.RecordBatch.from_pylist([write_file(path, pa.Table.from_batches(waiting))])

    return write


def write_file(path: str, rows: pa.Table) -> dict[str, object]:
    from pathlib import Path

    import pyarrow.parquet as pq

    folder, name = Path(path), f"part-{uuid.uuid4()}.zstd.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / name, compression="zstd")
    return {"path": name, "size": (folder / name).stat().st_size, "stats": json.dumps(_statistics(rows))}


def _statistics(rows: pa.Table) -> dict[str, object]:
    """Number of rows, and bounds of simple columns: readers skip files by them."""
    import pyarrow.compute as pc

    named = [field.name for field in rows.schema if str(field.type).startswith(_BOUNDED)]
    bounds = {name: pc.min_max(rows.column(name)).as_py() for name in named}
    known = {name: found for name, found in bounds.items() if _is_exact(found["min"]) and _is_exact(found["max"])}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: _plain(found["min"]) for name, found in known.items()},
        "maxValues": {name: _plain(found["max"]) for name, found in known.items()},
        "nullCount": {name: rows.column(name).null_count for name in rows.column_names},
    }


def _is_exact(value: object) -> bool:
    """Whether the bound can be written whole. Delta would need a long text cut upwards; NaN has no place in JSON."""
    if isinstance(value, str):
        return len(value) <= 32
    return value is not None and not (isinstance(value, float) and (value != value or abs(value) == float("inf")))


def _plain(value: object) -> object:
    if hasattr(value, "isoformat") and hasattr(value, "hour"):
        text: str = value.isoformat(timespec="microseconds")
        return text.replace("+00:00", "Z")
    return value.isoformat() if hasattr(value, "isoformat") else value
