"""Typed columns of a topic: the fields of the value's schema in the registry, and where each record came from.

    id, amount, …, _key, _headers, _partition, _offset, _timestamp

The names with an underscore do not meet fields of the schema; a schema that has one of them is refused. The reader's
schema is the latest version of `<topic>-value`. A record is written with a version that is registered before, so the
latest version that is asked for after the end of a batch is known has the fields of all its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.schemas.decoding import ERROR, SOURCE, Decoding
from headrace.pipelines.schemas.registry_options import RegistryAccess
from headrace.serialization.arrow_records import HEADERS_TYPE
from headrace.serialization.errors import RegistryError
from headrace.serialization.subjects import subject_of
from headrace.tables.formats.evolution import IncompatibleColumns, widened
from headrace.tables.formats.table_files import OFFSET, PARTITION

KEY: Final = "_key"
# Name of a column here, and the column of Kafka that it comes from.
POSITIONS: Final = {
    KEY: "key",
    "_headers": "headers",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
_TYPES: Final = {
    KEY: pa.binary(),
    "_headers": HEADERS_TYPE,
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True)
class TypedRows:
    """Makes typed rows of a batch with Kafka's columns. Sent to executors."""

    decoding: Decoding
    # Columns that the table has and the reader's schema lacks are null.
    columns: pa.Schema

    @classmethod
    def latest(cls, topic: str, registry: str, version: int | None = None) -> TypedRows:
        options = {"registry": registry} | ({} if version is None else {"schemaVersion": str(version)})
        decoding = Decoding.from_options(options, [topic], include_headers=True)
        fields = [field for field in decoding.columns() if field.name not in (ERROR, SOURCE)]
        if taken := sorted({field.name for field in fields} & {*POSITIONS, PARTITION, OFFSET}):
            raise OptionError(
                f"subject {subject_of(topic)!r}: the schema has a field {taken[0]!r}, which is the name of a column "
                "that every typed table has: choose --columns kafka, or SQL"
            )
        positions = [pa.field(name, kind) for name, kind in _TYPES.items()]
        return cls(decoding, pa.schema([pa.field(f.name, stored_type(f.type), True) for f in [*fields, *positions]]))

    def with_columns(self, columns: pa.Schema) -> TypedRows:
        return TypedRows(self.decoding, columns)

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """(rows that could be decoded, number of the others). Columns that are not Kafka's stay."""
        rows, errors = self.with_errors(batch)
        failed = len(errors) - errors.null_count
        return (rows.filter(pc.is_null(errors)) if failed else rows), failed

    def with_errors(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """(all rows, what is wrong with each): a row that could not be decoded has null in its fields."""
        decoded = self.decoding.decode(batch)
        arrays = [self._column(name, decoded, batch) for name in self.columns.names]
        taken = {*POSITIONS.values(), "value", "topic", *self.columns.names}
        others = [name for name in batch.schema.names if name not in taken]
        fields = [*self.columns, *(batch.schema.field(name) for name in others)]
        rows = pa.RecordBatch.from_arrays([*arrays, *(batch.column(n) for n in others)], schema=pa.schema(fields))
        return rows, decoded.column(ERROR)

    def _column(self, name: str, decoded: pa.RecordBatch, batch: pa.RecordBatch) -> pa.Array:
        kind = self.columns.field(name).type
        if name in POSITIONS:
            return batch.column(POSITIONS[name]).cast(kind)
        if name in decoded.schema.names:
            return decoded.column(name).cast(kind)
        return pa.nulls(batch.num_rows, kind)

    def errors(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that cannot be decoded, with `_error` and `_source`: for dead letters."""
        for batch in batches:
            decoded = self.decoding.decode(batch)
            yield decoded.filter(pc.is_valid(decoded.column(ERROR))).select([ERROR, SOURCE])


def has_subject(topic: str, registry: str) -> bool:
    """Whether the registry has a schema for the values of the topic. Raises PipelineError if it does not answer."""
    try:
        RegistryAccess(registry).client().latest(subject_of(topic))
    except RegistryError as error:
        if error.status == 404:
            return False
        raise PipelineError(f"registry {registry!r}: {error}") from error
    return True


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column in a table. Lakes have no time of day with a unit of their own and no unsigned numbers."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, stored_type(field.type), True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(stored_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, stored_type(kind.item_type))
    return kind


def newest_that_fits(topic: str, registry: str, columns: pa.Schema) -> TypedRows:
    """The newest version of the schema whose fields fit the columns of the table."""
    found = TypedRows.latest(topic, registry)
    number = found.decoding.reader.version
    while True:
        try:
            widened(columns, found.columns, "")
            return found
        except IncompatibleColumns:
            if not number or number <= 1:
                raise
            number -= 1
        try:
            found = TypedRows.latest(topic, registry, number)
        except PipelineError as error:
            # A deleted version is left out.
            if not isinstance(error.__cause__, RegistryError):
                raise
