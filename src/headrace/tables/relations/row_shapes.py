"""How the records of a topic become the rows of a relation: with Kafka's columns, or typed by the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from headrace.tables.relations.topic_relation import KAFKA_COLUMNS, as_text

if TYPE_CHECKING:
    from headrace.tables.typed_rows import TypedRows

ERROR_COLUMN: Final = "_error"


class RowShape(Protocol):
    """`prefix` stands before partition, offset and timestamp in the names of the relation's columns."""

    @property
    def prefix(self) -> str: ...
    @property
    def has_every_record(self) -> bool:
        """Whether every record is a row."""

    def fetched(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns of Kafka that the columns of the relation need."""

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch: ...


def in_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema. Bytes become text where the schema says so."""
    arrays = [
        as_text(batch.column(field.name))
        if pa.types.is_string(field.type)
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class KafkaShape:
    prefix: str = ""
    has_every_record: bool = True

    def fetched(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return in_types(batch, schema)


@dataclass(frozen=True)
class TypedShape:
    """`keeps_errors`: records that cannot be decoded are rows with `_error`. A table has none of them, because they
    are dead letters, so the live rows beside a table leave them out."""

    typed: TypedRows
    keeps_errors: bool
    prefix: str = "_"

    @property
    def has_every_record(self) -> bool:
        return self.keeps_errors

    def fetched(self, columns: Sequence[str]) -> Sequence[str]:
        return [name for name in KAFKA_COLUMNS if name != "topic"]

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if self.keeps_errors:
            rows, errors = self.typed.with_errors(self._whole(batch))
            rows = rows.append_column(ERROR_COLUMN, errors)
        else:
            rows, _ = self.typed(self._whole(batch))
        return in_types(rows, schema)

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The decoder keeps the source of each record, which has the name of its topic."""
        topic = self.typed.decoding.reader.subject or ""
        return batch.append_column("topic", pa.repeat(pa.scalar(topic), batch.num_rows))

    def columns(self, *, binary: bool) -> pa.Schema:
        fields = [
            pa.field(field.name, pa.string()) if field.name == "_key" and not binary else field
            for field in self.typed.columns
        ]
        return pa.schema([*fields, pa.field(ERROR_COLUMN, pa.string())] if self.keeps_errors else fields)
