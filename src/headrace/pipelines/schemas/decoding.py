"""`option("decode", "registry")`: typed columns instead of bytes.

    spark.readStream.format("headrace").option("subscribe", "orders").option("decode", "registry")

gives the columns of the reader's schema (the latest version of `<topic>-value`, or the one that `schemaVersion` and
`subject` name), `_error` (null where the row is good) and `_source` (the record it came from): the same columns as
`decode` gives for JSON, so `dead_letters` takes them. The version is chosen once, when the query starts. Records of
other versions are resolved to it. A tombstone has null in all columns and no error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.schemas.registry_options import RegistryAccess, version_of
from headrace.serialization.arrow_decoder import ArrowDecoder, Headers
from headrace.serialization.arrow_records import HEADERS_TYPE
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.schema import RegisteredSchema
from headrace.serialization.subjects import subject_of
from headrace.serialization.wire_format import VALUE_HEADER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ERROR: Final = "_error"
SOURCE: Final = "_source"
_SOURCE_FIELDS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_SOURCE_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": HEADERS_TYPE,
}


@dataclass(frozen=True)
class Decoding:
    """The reader's schema. Sent to executors."""

    access: RegistryAccess
    reader: RegisteredSchema
    message: str | None
    include_headers: bool

    @classmethod
    def from_options(cls, options: Mapping[str, str], topics: Iterable[str], *, include_headers: bool) -> Decoding:
        """Asks the registry for the reader's schema. Raises OptionError or PipelineError."""
        access = RegistryAccess.from_options(options)
        subject = options.get("subject") or _subject(list(topics))
        number = version_of(options)
        try:
            client = access.client()
            reader = client.latest(subject) if number is None else client.version(subject, number)
            made = cls(access, reader, options.get("message"), include_headers)
            made.columns()
        except (RegistryError, SerializationError) as error:
            raise PipelineError(f"decode=registry: subject {subject!r}: {error}") from error
        return made

    def columns(self) -> list[pa.Field]:
        decoder = _decoder_for(self)
        taken = {field.name for field in decoder.type} & {ERROR, SOURCE}
        if taken:
            raise SerializationError(f"the schema has a field {sorted(taken)[0]!r}, which is the name of a column here")
        names = [name for name in _SOURCE_FIELDS if name != "headers" or self.include_headers]
        source = pa.struct([pa.field(name, _SOURCE_TYPES[name]) for name in names])
        return [*decoder.type, pa.field(ERROR, pa.string()), pa.field(SOURCE, source)]

    def spark_schema(self) -> StructType:
        return from_arrow_schema(pa.schema(self.columns()), prefer_timestamp_ntz=True)

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of Kafka's columns as typed columns. `headers` must be among them for the header form."""
        decoder = _decoder_for(self)
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        try:
            found = decoder.decode(batch.column("value"), _schema_headers(headers))
        except RegistryError as error:
            raise PipelineError(str(error)) from error
        fields = self.columns()
        source = fields[-1].type
        parts = [batch.column(each.name).cast(each.type) for each in source]
        columns = [pc.struct_field(found.rows, [index]) for index in range(found.rows.type.num_fields)]
        whole = [*columns, found.errors, pa.StructArray.from_arrays(parts, fields=list(source))]
        return pa.RecordBatch.from_arrays(whole, schema=to_arrow_schema(self.spark_schema(), timezone="UTC"))


# A decoder knows the schemas of the writers. A worker keeps it between its tasks.
_decoders: dict[tuple[int, RegistryAccess, int, str | None], ArrowDecoder] = {}


def _decoder_for(decoding: Decoding) -> ArrowDecoder:
    key = (os.getpid(), decoding.access, decoding.reader.id, decoding.message)
    if key not in _decoders:
        _decoders[key] = ArrowDecoder(decoding.access.client(), decoding.reader, message=decoding.message)
    return _decoders[key]


def _subject(topics: list[str]) -> str:
    if len(topics) != 1:
        raise OptionError(
            'decode=registry needs one topic in "subscribe", whose subject is <topic>-value: '
            'for several topics or a pattern, name the reader\'s subject in option "subject"'
        )
    return subject_of(topics[0])


def _schema_headers(column: pa.Array | None) -> list[Headers | None] | None:
    """The headers of each row if any of them names a schema, else None."""
    if column is None or column.null_count == len(column):
        return None
    names = pc.struct_field(pc.list_flatten(column), [0])
    if not pc.any(pc.equal(names, VALUE_HEADER)).as_py():
        return None
    return [[(each["key"], each["value"]) for each in row or ()] for row in column.to_pylist()]


def decoded_frame(frame: DataFrame, decoding: Decoding) -> DataFrame:
    """The same for rows of another source, such as Spark's own connector."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (decoding.decode(batch) for batch in batches)

    return frame.mapInArrow(decode, decoding.spark_schema())
