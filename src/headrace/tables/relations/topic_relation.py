"""A topic as a relation of DuckDB.

DuckDB scans an Arrow dataset by asking it for the columns and the filter that the query needs. `TopicRelation` answers
as a dataset: it turns the filter into offset ranges, fetches only these, and applies the rest of the filter to the
fetched rows. So the optimizer of DuckDB decides what is fetched, also through joins, views and sub-queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.serialization.arrow_records import HEADERS_TYPE

KAFKA_COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_BINARY_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def kafka_schema(*, binary: bool) -> pa.Schema:
    """Kafka's columns of a record. Keys and values are text, unless the user asks for bytes."""
    if binary:
        return _BINARY_SCHEMA
    text = [pa.field(f.name, pa.string()) if f.name in ("key", "value") else f for f in _BINARY_SCHEMA]
    return pa.schema(text)


def as_text(column: pa.Array) -> pa.Array:
    """Bytes as text. Bytes that are not UTF-8 become the replacement character, as in Kafka's console consumer."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        values = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
        return pa.array(values, pa.string())


class RowsOfRelation(Protocol):
    """The rows of a relation, for the columns and the filter that a scan asks for."""

    def __call__(self, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]: ...


class _Scanner:
    """What DuckDB reads: a stream of batches."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema, self._batches = schema, batches

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches)


class Relation(ds.Dataset):  # type: ignore[misc]
    """A dataset whose rows come from a function. `failed` gets the error of a scan: Arrow and DuckDB keep its text
    only."""

    def __init__(self, schema: pa.Schema, rows: RowsOfRelation, failed: Callable[[Exception], None]) -> None:
        self._columns, self._rows, self._failed = schema, rows, failed

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> _Scanner:
        chosen = list(self._columns.names if columns is None else columns)
        schema = pa.schema([self._columns.field(name) for name in chosen])
        return _Scanner(schema, self._batches(chosen, filter))

    def _batches(self, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        needed = list(columns) if expression is None else list(self._columns.names)
        try:
            for batch in self._rows(needed, expression):
                kept = batch if expression is None else batch.filter(expression)
                if kept.num_rows:
                    yield kept.select(columns)
        except Exception as error:
            # Boundary to DuckDB, which passes on the text of an error only.
            self._failed(error)
            raise
