"""Database changes as records with a schema.

A record has the columns of the change source. `before` and `after` are structs with the columns of the table, as the
database's catalogue describes them. The connector registers the schema when it writes the first change of a table. If a
change has a column that the schema lacks, the connector reads the catalogue again and registers the next version. A
column that was dropped stays in the schema, so that every version is compatible with the one before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.pipelines.connectors.cdc.change_topics import TOMBSTONE
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.schemas.column_schemas import schema_text
from headrace.pipelines.schemas.encoding import Encoding, field_numbers
from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.protobuf.codec import ProtobufCodec
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.schema import PROTOBUF, RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SIDES: Final = ("before", "after")
_FIXED: Final = {
    "op": pa.string(),
    "table": pa.string(),
    "position": pa.int64(),
    "number": pa.int32(),
    "committed_at": pa.timestamp("us", tz="UTC"),
}
_TYPES: Final = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), (\d+)\)")
Columns = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class ChangeRecords:
    """Sent to the executor that writes the changes."""

    encoding: Encoding
    url: str
    tables: tuple[str, ...]
    topic: str

    def subject(self, table: str) -> str:
        """One table has the topic's subject; several have one each."""
        if self.encoding.subject:
            return self.encoding.subject
        return f"{self.topic}-value" if len(self.tables) == 1 else f"{self.topic}-{record_name(table)}"

    def encoded(self, frame: DataFrame) -> DataFrame:
        """`key` and `value` for the sink."""

        def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = batch.to_pylist()
                keys = pa.array([row["key"] for row in rows], pa.string())
                values = pa.array([self._value(row) for row in rows], pa.binary())
                yield pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])

        return frame.mapInArrow(encode, "key string, value binary")

    def _value(self, row: Mapping[str, object]) -> bytes | None:
        return None if row["op"] == TOMBSTONE else self._table(str(row["table"])).encode(row)

    def _table(self, table: str) -> TableEncoder:
        key = (os.getpid(), self, table)
        if key not in _tables:
            _tables[key] = TableEncoder(self, table)
        return _tables[key]


def record_name(table: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", table)


class TableEncoder:
    """Encodes the changes of one table. Owns the columns that its schema has."""

    def __init__(self, records: ChangeRecords, table: str) -> None:
        self._records = records
        self._table = table
        self._columns: Columns = {}
        self._encoder: RecordEncoder | None = None

    def encode(self, change: Mapping[str, object]) -> bytes:
        sides = {side: _columns_of(change[side]) for side in _SIDES}
        missing = [name for side in sides.values() for name in side or () if name not in self._columns]
        try:
            if self._encoder is None or missing:
                self._register({**(sides["before"] or {}), **(sides["after"] or {})})
            assert self._encoder is not None
            record = {name: change[name] for name in _FIXED}
            for side, values in sides.items():
                record[side] = None if values is None else {n: self._value(n, value) for n, value in values.items()}
            return self._encoder.encode(self._records.topic, record)
        except (RegistryError, SerializationError) as error:
            raise PipelineError(f"cdc: a change of table {self._table!r}: {error}") from error

    def _value(self, name: str, value: object) -> object:
        """The database's text in the type of the column."""
        kind = self._columns[name]
        if not isinstance(value, str):
            return str(value) if value is not None and kind == pa.string() else value
        if kind == pa.binary():
            return bytes.fromhex(value[2:]) if value.startswith("\\x") else value.encode()
        if kind == pa.float64():
            return float(value)
        return value

    def _register(self, change: Mapping[str, object]) -> None:
        """Registers the schema of the table as it is now, with all columns that it ever had."""
        records, encoding = self._records, self._records.encoding
        subject = records.subject(self._table)
        latest = self._latest(subject)
        catalogue = _catalogue(records.url, self._table)
        registered = self._registered(latest)
        guessed = {name: _guessed(value) for name, value in change.items()}
        known = {**guessed, **self._columns, **registered, **catalogue}
        # Every worker gives the columns the same order: that of the registered schema, then that of the catalogue.
        found = {name: known[name] for name in dict.fromkeys([*registered, *catalogue, *known])}
        self._columns = found
        side = pa.struct(list(found.items()))
        envelope = pa.struct([*_FIXED.items(), *((name, side) for name in _SIDES)])
        numbers = None
        if latest is not None and encoding.kind == PROTOBUF:
            numbers = field_numbers(ProtobufCodec(latest, encoding.access.client()).written())
        text = schema_text(encoding.kind, record_name(self._table), envelope, numbers)
        self._encoder = RecordEncoder(encoding.access.client(), encoding.kind, schema=text, subject=subject)
        self._encoder.schema_for(records.topic)

    def _latest(self, subject: str) -> RegisteredSchema | None:
        try:
            return self._records.encoding.access.client().latest(subject)
        except RegistryError as error:
            if error.status == 404:
                return None
            raise

    def _registered(self, latest: RegisteredSchema | None) -> Columns:
        if latest is None:
            return {}
        kind = ArrowDecoder(self._records.encoding.access.client(), latest).type
        sides = [kind.field(side).type for side in _SIDES if kind.get_field_index(side) >= 0]
        return {field.name: field.type for side in sides if pa.types.is_struct(side) for field in side}


# An encoder knows its columns and schema id. A worker keeps it between its tasks.
_tables: dict[tuple[int, ChangeRecords, str], TableEncoder] = {}


def _catalogue(url: str, table: str) -> Columns:
    """Empty if the table is dropped: its last changes are still in the log."""
    try:
        columns = Database(url).columns(table)
    except PipelineError:
        return {}
    return {name: _arrow_type(kind) for name, kind in columns.items()}


def _arrow_type(kind: str) -> pa.DataType:
    """Of a Spark type as `Database.columns` names it. Spark's own parser needs a session, which a worker lacks."""
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES[kind]


def _columns_of(text: object) -> dict[str, object] | None:
    """One side of a change, which the source gives as JSON."""
    return None if text is None else json.loads(str(text))


def _guessed(value: object) -> pa.DataType:
    """The type of a column that neither the catalogue nor the schema has any more."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64()
    return pa.float64() if isinstance(value, float) else pa.string()
