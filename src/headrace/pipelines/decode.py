"""Decodes bytes to columns. A row that cannot be decoded becomes a dead letter and does not fail the query.

    events = decode(df, "user string, amount double")                 # JSON
    events = decode(df, avro_schema_text, format="avro")              # Avro, by fastavro

gives the schema's columns, `_error` (null where the row is good), `_deleted` (true for a tombstone, which has no value)
and `_source` (the record it came from). Good rows: `events.where("_error is null and not _deleted")`. Bad rows:
`dead_letters(events)` is a DataFrame for the sink, addressed to `<topic>.dlq`, with the original key, value and
headers, and headers that say why and where from.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.dead_letter_headers import (
    DEAD_LETTERS,
    ERROR_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PREFIX,
    RETRIES_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)
from headrace.pipelines.json_pattern import json_pattern

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT: Final = "_corrupt"
SOURCE_FIELDS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
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
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "date": "date",
    # Spark's JSON reader has no type for a time of day.
    "time-millis": "string",
    "time-micros": "string",
    "uuid": "string",
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"


STRICT: Final = "letter"
_STRICTNESS: Final = ("letter", "null", "fail")
# Columns of the scans of a value: the names of its fields, and how many elements there are with it in an array.
_KEYS: Final = "_keys"
_ELEMENTS: Final = "_elements"


def decode(
    frame: DataFrame,
    schema: str | StructType,
    *,
    format: str = "json",
    column: str = "value",
    writer_schema: str | None = None,
    missing_field: str = STRICT,
    trailing_text: str = STRICT,
    extra_field: str = STRICT,
) -> DataFrame:
    """Columns of the schema, `_error`, `_deleted` (a tombstone: the value is null) and `_source`. The last three
    arguments say what a JSON value becomes that lacks a field of the schema, has text after its end, or has a field
    that the schema lacks: "letter" (an `_error`), "null" (the field is null, the rest is ignored) or "fail"."""
    source = f.struct(*[f.col(name) for name in SOURCE_FIELDS if name in frame.columns]).alias("_source")
    if format == "json":
        text, struct, failed = f.col(column).cast("string"), _struct(schema), f.lit(None).cast("string")
    elif format == "avro":
        if not isinstance(schema, str):
            raise OptionError("an Avro schema is given as its JSON text")
        parsed = json.loads(schema)
        opened = avro_to_json(schema, writer_schema)(f.col(column))
        text, failed, struct = opened["json"], opened["error"], _struct(avro_to_ddl(parsed))
    else:
        raise OptionError(f'format={format!r}: must be "json" or "avro"')
    with_corrupt = StructType([*struct.fields, StructField(_CORRUPT, StringType())])
    data = f.from_json(text, with_corrupt, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    is_deleted = f.col("_source")[column].isNull()
    problem = (
        f.when(is_deleted, f.lit(None).cast("string"))
        .when(f.col("_failed").isNotNull(), f.col("_failed"))
        .when(
            f.col(f"_data.{_CORRUPT}").isNotNull(),
            f.concat(f.lit(f"not {format.upper()} of the schema: "), f.substring(f.col(f"_data.{_CORRUPT}"), 1, 200)),
        )
        .when(f.col("_data").isNull(), f.lit("empty"))
    )
    choices = {"missing_field": missing_field, "trailing_text": trailing_text, "extra_field": extra_field}
    strict = _strict(text, struct, choices) if format == "json" else None
    is_doubtful = _is_doubtful(text, struct)
    scans = [f.when(is_doubtful, scan).alias(name) for name, scan in (strict.scans if strict is not None else ())]
    rows = frame.select(_once(data).alias("_data"), failed.alias("_failed"), source, *scans)
    if strict is not None:
        problem = problem.otherwise(strict.problem)
    fields = [f.col("_data").getField(name).alias(name) for name in struct.fieldNames()]
    return rows.select(*fields, problem.alias("_error"), is_deleted.alias("_deleted"), "_source")


def _once(parsed: Column) -> Column:
    """The column, computed once per row. Spark moves a filter on the parsed columns below the parser, where it parses
    every value for the filter and the good ones a second time. It does not move a filter below an expression that it
    takes for a random one, and the number of the task is such an expression."""
    return f.when(f.spark_partition_id() >= 0, parsed)


@dataclass(frozen=True)
class _Strict:
    """What a well-formed value has too much or too little: named columns of the rows, and an expression over them."""

    scans: tuple[tuple[str, Column], ...]
    problem: Column


def _strict(text: Column, struct: StructType, choices: Mapping[str, str]) -> _Strict | None:
    """Both scans read the tokens of the value and build nothing, which takes a fraction of the time of the parser. The
    value is counted as the first of two elements of an array: text after its end makes the array malformed or longer,
    and a bracket there ends it early."""
    for name, choice in choices.items():
        if choice not in _STRICTNESS:
            raise OptionError(f'{name}={choice!r}: must be "letter", "null" or "fail"')
    if all(choice == "null" for choice in choices.values()):
        return None
    scans = [(_KEYS, f.json_object_keys(text))]
    if choices["trailing_text"] != "null":
        scans.append((_ELEMENTS, f.json_array_length(f.concat(f.lit("["), text, f.lit(",0]")))))
    names, keys = f.array(*[f.lit(name) for name in struct.fieldNames()]), f.col(_KEYS)
    extra, missing = f.array_except(keys, names), f.array_except(names, keys)
    # Most values have the fields of the schema in its order, and comparing the lists is cheaper than sets of them.
    are_others = keys != names
    problem = f.lit(None).cast("string")
    for name, is_so, words in (
        ("extra_field", are_others & (f.size(extra) > 0), _listed("extra field", extra)),
        ("missing_field", are_others & (f.size(missing) > 0), _listed("missing", missing)),
        ("trailing_text", ~f.col(_ELEMENTS).eqNullSafe(f.lit(2)), f.lit("text after the end of the JSON value")),
    ):
        if choices[name] == "letter":
            problem = f.when(is_so, words).otherwise(problem)
        elif choices[name] == "fail":
            problem = f.when(is_so, f.raise_error(words).cast("string")).otherwise(problem)
    # A value that is not a JSON object is reported by its own check. One that fits beyond doubt is not scanned.
    return _Strict(tuple(scans), f.when(keys.isNotNull(), problem))


def _is_doubtful(text: Column, struct: StructType) -> Column:
    """Whether only the parser knows if the value fits the schema."""
    pattern = json_pattern(struct)
    return f.lit(True) if pattern is None else ~text.rlike(pattern)


def doubtful_rows(frame: DataFrame, schema: str | StructType, *, format: str = "json") -> DataFrame:
    """The records from which `decode` may make a dead letter. The others need not be parsed to find the letters."""
    return frame.where(_is_doubtful(f.col("value").cast("string"), _struct(schema))) if format == "json" else frame


def _listed(words: str, names: Column) -> Column:
    return f.concat(f.lit(f"{words}: "), f.array_join(names, ", "))


def dead_letters(decoded: DataFrame, *, suffix: str = ".dlq") -> DataFrame:
    """The bad rows, ready to be written: `dead_letters(events).writeStream.format("headrace")…`. A letter has the key,
    the value and the headers of the record, and our headers say why it is a letter and where the record was."""
    at = f.col("_source")
    present = decoded.select("_source.*").columns

    def header(name: str, value: Column) -> Column:
        return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    ours = [header(ERROR_HEADER, f.col("_error")), header(TOPIC_HEADER, at["topic"])]
    ours += [header(PARTITION_HEADER, at["partition"]), header(OFFSET_HEADER, at["offset"])]
    if "timestamp" in present:
        ours.append(header(TIMESTAMP_HEADER, f.unix_millis(at["timestamp"])))
    headers = f.array(*ours)
    if "headers" in present:
        # Ours of an earlier attempt are replaced. The number of retries stays.
        kept = f.filter(at["headers"], lambda one: ~one["key"].startswith(PREFIX) | (one["key"] == RETRIES_HEADER))
        headers = f.concat(f.coalesce(kept, f.array().cast(_HEADERS)), headers)
    return decoded.where("_error is not null").select(
        at["key"].alias("key"),
        at["value"].alias("value"),
        f.concat(at["topic"], f.lit(suffix)).alias("topic"),
        headers.alias("headers", metadata={DEAD_LETTERS: True}),
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


def avro_to_json(schema: str, writer_schema: str | None = None) -> Callable[[Column], Column]:
    """A UDF from Avro bytes to (json, error). `schema` is the reader's schema. The writer's schema is in the value (an
    object container file), named by it (single-object encoding, by fingerprint), given, or else the reader's."""

    @f.udf("json string, error string")
    def open_avro(data):  # type: ignore[no-untyped-def]  # Spark warns about hints it cannot read
        from headrace.pipelines.avro_values import read_value

        if data is None:
            return None, None
        row, problem = read_value(bytes(data), schema, writer_schema)
        return (None, problem) if problem is not None else (json.dumps(row, default=plain), None)

    opened: Callable[[Column], Column] = open_avro
    return opened


def plain(value: object) -> str:
    """A value that JSON lacks, in the form that Spark reads: times in ISO form, bytes in base64, the rest as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)
