"""Decodes bytes to columns. A row that cannot be decoded becomes a dead letter and does not fail the query.

    events = decode(df, "user string, amount double")                 # JSON
    events = decode(df, avro_schema_text, format="avro")              # Avro, by fastavro

gives the schema's columns, `_error` (null where the row is good) and `_source` (the record it came from). Good rows:
`events.where("_error is null")`. Bad rows: `dead_letters(events)` is a DataFrame for the sink, addressed to
`<topic>.dlq`, with the original bytes and headers that say why and where from.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.dead_letter_headers import ERROR_HEADER, OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT: Final = "_corrupt"
_SOURCE_FIELDS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_AVRO_TYPES: Final = {
    "string": "string",
    "bytes": "binary",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL_TYPES: Final = {
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "date": "date",
    "uuid": "string",
}


def decode(frame: DataFrame, schema: str | StructType, *, format: str = "json", column: str = "value") -> DataFrame:
    source = f.struct(*[f.col(name) for name in _SOURCE_FIELDS if name in frame.columns]).alias("_source")
    if format == "json":
        text, struct, failed = f.col(column).cast("string"), _struct(schema), f.lit(None).cast("string")
    elif format == "avro":
        if not isinstance(schema, str):
            raise OptionError("an Avro schema is given as its JSON text")
        parsed = json.loads(schema)
        opened = _avro_to_json(schema)(f.col(column))
        text, failed, struct = opened["json"], opened["error"], _struct(avro_to_ddl(parsed))
    else:
        raise OptionError(f'format={format!r}: must be "json" or "avro"')
    with_corrupt = StructType([*struct.fields, StructField(_CORRUPT, StringType())])
    data = f.from_json(text, with_corrupt, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    rows = frame.select(data.alias("_data"), failed.alias("_failed"), source)
    problem = (
        f.when(f.col("_failed").isNotNull(), f.col("_failed"))
        .when(f.col("_source")[column].isNull(), f.lit("the value is null"))
        .when(
            f.col(f"_data.{_CORRUPT}").isNotNull(),
            f.concat(f.lit(f"not {format.upper()} of the schema: "), f.substring(f.col(f"_data.{_CORRUPT}"), 1, 200)),
        )
        .when(f.col("_data").isNull(), f.lit("empty"))
    )
    fields = [f.col("_data").getField(name).alias(name) for name in struct.fieldNames()]
    return rows.select(*fields, problem.alias("_error"), "_source")


def dead_letters(decoded: DataFrame, *, suffix: str = ".dlq") -> DataFrame:
    """The bad rows, ready to be written: `dead_letters(events).writeStream.format("headrace")…`."""
    at = f.col("_source")

    def header(name: str, value: Column) -> Column:
        return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    ours = f.array(
        header(ERROR_HEADER, f.col("_error")),
        header(TOPIC_HEADER, at["topic"]),
        header(PARTITION_HEADER, at["partition"]),
        header(OFFSET_HEADER, at["offset"]),
    )
    return decoded.where("_error is not null").select(
        at["key"].alias("key"),
        at["value"].alias("value"),
        f.concat(at["topic"], f.lit(suffix)).alias("topic"),
        ours.alias("headers"),
    )


def _struct(schema: str | StructType) -> StructType:
    if isinstance(schema, StructType):
        return schema
    try:
        return StructType.fromDDL(schema)
    except Exception as error:
        # Boundary to Spark's parser: the user must not see its Java stack trace.
        raise OptionError(f"schema {schema!r} cannot be read: write it like 'user string, amount double'") from error


def avro_to_ddl(schema: dict[str, object]) -> str:
    """The Spark columns of an Avro record schema."""
    if schema.get("type") != "record":
        raise OptionError("an Avro schema for rows must be a record")
    return ", ".join(f"`{name}` {kind}" for name, kind in _columns(schema))


def _columns(record: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    fields = record.get("fields")
    if not isinstance(fields, list):
        raise OptionError('an Avro record must have a list of "fields"')
    for field in fields:
        if not isinstance(field, dict) or "name" not in field:
            raise OptionError(f"Avro field {field!r} must be an object with a name and a type")
        yield str(field["name"]), _ddl(field.get("type"))


def _ddl(kind: object) -> str:
    if isinstance(kind, list):
        some = [part for part in kind if part != "null"]
        if len(some) != 1:
            raise OptionError(f"Avro union {kind}: only a type and null can become a column")
        return _ddl(some[0])
    if isinstance(kind, str):
        if kind not in _AVRO_TYPES:
            raise OptionError(f"Avro type {kind!r} cannot become a column")
        return _AVRO_TYPES[kind]
    if not isinstance(kind, dict):
        raise OptionError(f"Avro type {kind!r} cannot become a column")
    logical = kind.get("logicalType")
    if logical == "decimal":
        return f"decimal({kind['precision']}, {kind.get('scale', 0)})"
    if logical in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[logical]
    match kind.get("type"):
        case "record":
            return "struct<" + ", ".join(f"`{name}`: {inner}" for name, inner in _columns(kind)) + ">"
        case "array":
            return f"array<{_ddl(kind.get('items'))}>"
        case "map":
            return f"map<string, {_ddl(kind.get('values'))}>"
    return _ddl(kind.get("type"))


def _avro_to_json(schema: str) -> Callable[[Column], Column]:
    """A UDF from Avro bytes to (json, error). Also accepts bytes with the schema registry's five-byte prefix."""

    @f.udf("json string, error string")
    def open_avro(data):  # type: ignore[no-untyped-def]  # Spark warns about hints it cannot read
        import io

        import fastavro

        if data is None:
            return None, None
        parsed = fastavro.parse_schema(json.loads(schema))
        for skip in (0, 5) if data[:1] == b"\0" and len(data) > 5 else (0,):
            stream = io.BytesIO(data[skip:])
            try:
                row = fastavro.schemaless_reader(stream, parsed, None)
            except Exception as error:
                # Boundary to the bytes of one record: fastavro may raise any exception, and none may fail the query.
                problem = f"not AVRO of the schema: {type(error).__name__}: {error}"[:300]
                continue
            if stream.read(1) == b"":
                return json.dumps(row, default=_plain), None
            problem = "not AVRO of the schema: bytes are left over"
        return None, problem

    opened: Callable[[Column], Column] = open_avro
    return opened


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else repr(value)
