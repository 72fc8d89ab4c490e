"""`option("encode", "avro" | "json" | "protobuf")`: rows become records with a schema id.

The record of a row is its column `value` (a struct), or all columns that the sink does not use itself. The schema is
the text in option `schema`, the subject's latest version (`schema=latest`), or the schema of the columns. A schema that
the subject does not have is registered as its next version. A row whose `value` is null is a tombstone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.schemas.column_schemas import Numbers, schema_text
from headrace.pipelines.schemas.registry_options import RegistryAccess
from headrace.serialization.columns.python_values import python_values
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.schema import AVRO, JSON, PROTOBUF
from headrace.serialization.subjects import SubjectStrategy, subject_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

VALUE: Final = "value"
_KINDS: Final = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
_SINK_COLUMNS: Final = ("key", "topic", "partition", "headers", "timestamp")
_LATEST: Final = "latest"
_NOT_HERE: Final = "schemaVersion"


@dataclass(frozen=True)
class Encoding:
    access: RegistryAccess
    kind: str
    schema: str | None
    """The text; None until the columns are known; `latest`: the latest version of the subject."""
    strategy: str
    subject: str | None
    message: str | None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Encoding:
        kind = _KINDS.get(options["encode"].lower())
        if kind is None:
            raise OptionError(f"encode={options['encode']!r}: must be avro, json or protobuf")
        if _NOT_HERE in options:
            raise OptionError(f'option "{_NOT_HERE}" is for reading: give option "schema" with the text, or latest')
        strategy = options.get("subjectStrategy", "topic").lower()
        try:
            SubjectStrategy.parse(strategy)
        except SerializationError as error:
            raise OptionError(f"subjectStrategy: {error}") from error
        access = RegistryAccess.from_options(options)
        return cls(access, kind, options.get("schema"), strategy, options.get("subject"), options.get("message"))

    def for_columns(self, schema: StructType, topic: str | None) -> Encoding:
        """Fixes the schema, and registers it if the topic is known. Runs on the driver before the query starts."""
        try:
            chosen = self if self.schema is not None else self._derived(schema, topic)
            if topic is not None:
                chosen.encoder().schema_for(topic)
            return chosen
        except (RegistryError, SerializationError) as error:
            raise PipelineError(f"encode={self.kind.lower()}: {error}") from error

    def _derived(self, schema: StructType, topic: str | None) -> Encoding:
        fields = {field.name: field for field in to_arrow_schema(schema, timezone="UTC")}
        if VALUE in fields and pa.types.is_struct(fields[VALUE].type):
            columns = fields[VALUE].type
        elif VALUE in fields:
            raise OptionError(f'column "value" is {fields[VALUE].type}: encode= needs a struct, or option "schema"')
        else:
            columns = pa.struct([fields[name] for name in record_columns(list(fields))])
        name = topic or "Row"
        numbers = self._numbers(topic) if self.kind == PROTOBUF else None
        return replace(self, schema=schema_text(self.kind, name, columns, numbers))

    def _numbers(self, topic: str | None) -> Numbers:
        """Field numbers of the latest version."""
        if topic is None:
            return {}
        from headrace.serialization.protobuf.codec import ProtobufCodec

        client = self.access.client()
        try:
            latest = client.latest(self.subject or subject_of(topic))
        except RegistryError as error:
            if error.status == 404:
                return {}
            raise
        return field_numbers(ProtobufCodec(latest, client, self.message).written())

    def encoder(self) -> RecordEncoder:
        key = (os.getpid(), self)
        if key not in _encoders:
            text = None if self.schema == _LATEST else self.schema
            _encoders[key] = RecordEncoder(
                self.access.client(),
                self.kind,
                self.strategy,
                schema=text,
                message=self.message,
                subject=self.subject,
                any_pattern=True,
            )
        return _encoders[key]

    def encode(self, batch: pa.RecordBatch, topics: str | Sequence[str]) -> pa.Array:
        """The values of the rows. `topics`: of all rows, or of each."""
        rows = python_values(record_array(batch))
        each_topic: Iterable[str] = [topics] * len(rows) if isinstance(topics, str) else topics
        encoder = self.encoder()
        try:
            return pa.array(
                [
                    None if row is None else encoder.encode(topic, row)
                    for topic, row in zip(each_topic, rows, strict=True)
                ],
                pa.binary(),
            )
        except SerializationError as error:
            raise PipelineError(f"encode={self.kind.lower()}: a row does not fit the schema: {error}") from error
        except RegistryError as error:
            raise PipelineError(f"encode={self.kind.lower()}: {error}") from error


# An encoder knows the ids of its schemas. A worker keeps it between its tasks.
_encoders: dict[tuple[int, Encoding], RecordEncoder] = {}


def field_numbers(descriptor: Descriptor) -> Numbers:
    return {
        field.name: (field.number, field_numbers(field.message_type) if field.message_type is not None else {})
        for field in descriptor.fields
    }


def record_columns(names: Iterable[str]) -> list[str]:
    """The columns of the record, if there is no column `value`."""
    found = [name for name in names if name not in _SINK_COLUMNS and not name.startswith("_")]
    if not found:
        raise OptionError("there is no column to encode: select columns, or a struct `value`")
    return found


def record_array(batch: pa.RecordBatch) -> pa.Array:
    names = batch.schema.names
    if VALUE in names:
        return batch.column(VALUE)
    chosen = record_columns(names)
    return pa.StructArray.from_arrays([batch.column(name) for name in chosen], names=chosen)
