"""The Arrow columns of an Avro schema, and the values of one record in their form.

A union of null and one type is a nullable column. Unions of int and long, and of float and double, are the larger type.
What Arrow cannot express becomes a string column with the value as JSON: other unions, and records that contain
themselves. Times of day, nanoseconds and UUIDs stay what Avro writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.serialization.avro.logical_types import CONVERSIONS
from headrace.serialization.avro.schema import AvroSchema
from headrace.serialization.columns.lists import list_of
from headrace.serialization.plain_values import as_json

Adjust = Callable[[Any], Any]
UTC_MICROS: Final = pa.timestamp("us", tz="UTC")
LOCAL_MICROS: Final = pa.timestamp("us")
LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": UTC_MICROS,
    "timestamp-micros": UTC_MICROS,
    "local-timestamp-millis": LOCAL_MICROS,
    "local-timestamp-micros": LOCAL_MICROS,
}
_PRIMITIVES: Final = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
VALUE: Final = "value"
_LARGEST_PRECISION: Final = 38


def record_fields(schema: AvroSchema) -> list[tuple[str, Any]]:
    """(name, node) of each column. A schema that is not a record is one column `value`."""
    root = schema.resolved(schema.root)
    if isinstance(root, dict) and root.get("type") in ("record", "error"):
        return [(field["name"], field["type"]) for field in root["fields"]]
    return [(VALUE, schema.root)]


def is_record(schema: AvroSchema) -> bool:
    root = schema.resolved(schema.root)
    return isinstance(root, dict) and root.get("type") in ("record", "error")


def avro_columns(schema: AvroSchema) -> pa.StructType:
    root = schema.resolved(schema.root)
    within = (root["name"],) if is_record(schema) else ()
    return pa.struct([pa.field(name, arrow_type(schema, node, within)) for name, node in record_fields(schema)])


def unwrapped(schema: AvroSchema, node: Any) -> tuple[Any, bool]:
    """(node without null, whether null is allowed). A union of two sizes of a number is the larger."""
    node = schema.resolved(node)
    if not isinstance(node, list):
        return node, node == "null"
    some = [each for each in node if each != "null"]
    if len(some) == 1:
        return schema.resolved(some[0]), len(some) < len(node)
    kinds = frozenset(each for each in some if isinstance(each, str))
    if len(kinds) == len(some) and kinds in _WIDER:
        return _WIDER[kinds], len(some) < len(node)
    return some, len(some) < len(node)


def logical_type(node: Any) -> pa.DataType | None:
    if not isinstance(node, dict):
        return None
    if node.get("logicalType") == "decimal":
        precision = node.get("precision", 0)
        return pa.decimal128(precision, node.get("scale", 0)) if 0 < precision <= _LARGEST_PRECISION else None
    return LOGICAL.get(node.get("logicalType", ""))


def arrow_type(schema: AvroSchema, node: Any, within: tuple[str, ...] = ()) -> pa.DataType:
    """`within`: names of the records around the node."""
    node, _ = unwrapped(schema, node)
    if isinstance(node, list):
        return pa.string()
    kind = node["type"] if isinstance(node, dict) else node
    if isinstance(kind, dict | list):
        return arrow_type(schema, kind, within)
    if (logical := logical_type(node)) is not None:
        return logical
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if kind == "array":
        return list_of(arrow_type(schema, node["items"], within))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema, node["values"], within))
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        return pa.binary()
    if node["name"] in within:
        return pa.string()
    inner = (*within, node["name"])
    return pa.struct([pa.field(field["name"], arrow_type(schema, field["type"], inner)) for field in node["fields"]])


def adjuster(schema: AvroSchema, node: Any, within: tuple[str, ...] = ()) -> Adjust | None:
    """A function from fastavro's value to what Arrow takes for the column. None: the same."""
    node, _ = unwrapped(schema, node)
    if isinstance(node, list):
        return _json
    kind = node["type"] if isinstance(node, dict) else node
    if isinstance(kind, dict | list):
        return adjuster(schema, kind, within)
    if isinstance(node, dict) and node.get("logicalType") in CONVERSIONS and logical_type(node) is None:
        return _written(node)
    if kind == "array":
        return _each(adjuster(schema, node["items"], within))
    if kind == "map":
        return _pairs(adjuster(schema, node["values"], within))
    if kind not in ("record", "error"):
        return None
    if node["name"] in within:
        return _json
    inner = (*within, node["name"])
    parts = {field["name"]: adjuster(schema, field["type"], inner) for field in node["fields"]}
    changed = {name: adjust for name, adjust in parts.items() if adjust is not None}
    return _fields(changed) if changed else None


def _written(node: Mapping[str, Any]) -> Adjust:
    """What Avro writes for a logical type that has no column type."""
    convert = CONVERSIONS[node["logicalType"]]
    return lambda value: None if value is None else convert(value, node)


def _json(value: Any) -> Any:
    return None if value is None else json.dumps(as_json(value), ensure_ascii=False)


def _each(adjust: Adjust | None) -> Adjust | None:
    if adjust is None:
        return None
    return lambda value: None if value is None else [adjust(each) for each in value]


def _pairs(adjust: Adjust | None) -> Adjust:
    def pairs(value: Any) -> Any:
        if value is None:
            return None
        return list(value.items()) if adjust is None else [(name, adjust(each)) for name, each in value.items()]

    return pairs


def _fields(changed: Mapping[str, Adjust]) -> Adjust:
    def fields(value: Any) -> Any:
        return None if value is None else {**value, **{name: adjust(value[name]) for name, adjust in changed.items()}}

    return fields
