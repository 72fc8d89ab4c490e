"""Rows of a statement as JSON, CSV or Parquet, written as they arrive, and as rows for a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, BinaryIO

import pyarrow as pa


class ResultFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def plain(value: Any) -> Any:
    """A value that JSON and a table can show. Bytes are text where they are UTF-8; other bytes are escaped."""
    match value:
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
    return value


def plain_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield {name: plain(value) for name, value in row.items()}


def write(form: ResultFormat, schema: pa.Schema, batches: Iterator[pa.RecordBatch], out: BinaryIO) -> None:
    match form:
        case ResultFormat.JSON:
            _write_json(batches, out)
        case ResultFormat.CSV:
            _write_csv(schema, batches, out)
        case ResultFormat.PARQUET:
            _write_parquet(schema, batches, out)
        case ResultFormat.TABLE:
            raise AssertionError("the command shows tables")
    out.flush()


def _write_json(batches: Iterator[pa.RecordBatch], out: BinaryIO) -> None:
    """One document: a list with one row per line."""
    separator = b"["
    for row in plain_rows(batches):
        out.write(separator + b"\n  " + json.dumps(row, ensure_ascii=False).encode())
        separator = b","
    out.write(b"[]\n" if separator == b"[" else b"\n]\n")


def _write_csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch], out: BinaryIO) -> None:
    import csv
    import io

    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(schema.names)
    for row in plain_rows(batches):
        rows.writerow([json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in row.values()])
    text.detach()


def _write_parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], out: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
