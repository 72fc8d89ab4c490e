"""The schema of columns, for a topic that has none yet: Arrow types to Avro, JSON Schema and Protobuf.

Every field is optional, so that the next version may add and remove columns. A JSON Schema is closed
(`additionalProperties: false`): a registry accepts new properties only then. Protobuf fields keep the numbers that the
latest version gives their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from headrace.pipelines.errors import OptionError
from headrace.serialization.schema import AVRO, JSON

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# (Avro, JSON Schema, Protobuf) of a type.
_SCALARS: Final[dict[pa.DataType, tuple[object, dict[str, object], str]]] = {
    pa.bool_(): ("boolean", {"type": "boolean"}, "bool"),
    pa.int8(): ("int", {"type": "integer"}, "int32"),
    pa.int16(): ("int", {"type": "integer"}, "int32"),
    pa.int32(): ("int", {"type": "integer"}, "int32"),
    pa.int64(): ("long", {"type": "integer"}, "int64"),
    pa.float32(): ("float", {"type": "number"}, "float"),
    pa.float64(): ("double", {"type": "number"}, "double"),
    pa.string(): ("string", {"type": "string"}, "string"),
    pa.binary(): ("bytes", {"type": "string"}, "bytes"),
    pa.date32(): ({"type": "int", "logicalType": "date"}, {"type": "string", "format": "date"}, "string"),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
# Field numbers by name, and those of the messages inside.
Numbers = Mapping[str, tuple[int, "Numbers"]]


def schema_text(kind: str, name: str, columns: pa.StructType, numbers: Numbers | None = None) -> str:
    """Raises OptionError for a column that the kind of schema cannot have."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    name = name if _NAME.match(name) else f"_{name}"
    if kind == AVRO:
        return json.dumps(_avro(columns, name, name))
    if kind == JSON:
        return json.dumps({"title": name, **_json(columns, name)})
    lines = [f"message {name} {{", *_proto_fields(columns, name, numbers or {}), "}"]
    imports = ['import "google/protobuf/timestamp.proto";'] if any(_TIMESTAMP in line for line in lines) else []
    return "\n".join(['syntax = "proto3";', *imports, *lines]) + "\n"


def _checked(name: str, place: str) -> str:
    if not _NAME.match(name):
        raise OptionError(f"column {place!r}: a field of a schema has only letters, digits and _: rename it")
    return name


def _refused(kind: pa.DataType, place: str) -> OptionError:
    return OptionError(f"column {place!r} is {kind}: a schema has no such type; cast it")


def _avro(kind: pa.DataType, name: str, place: str) -> object:
    if kind in _SCALARS:
        return _SCALARS[kind][0]
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, f"{name}_item", place)]}
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": ["null", _avro(kind.item_type, f"{name}_value", place)]}
    if pa.types.is_struct(kind):
        fields = [
            {
                "name": _checked(each.name, f"{place}.{each.name}"),
                "type": ["null", _avro(each.type, f"{name}_{each.name}", f"{place}.{each.name}")],
                "default": None,
            }
            for each in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    raise _refused(kind, place)


def _json(kind: pa.DataType, place: str) -> dict[str, object]:
    if kind in _SCALARS:
        return _SCALARS[kind][1]
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_decimal(kind):
        return {"type": "string"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _optional(_json(kind.value_type, place))}
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "object", "additionalProperties": _optional(_json(kind.item_type, place))}
    if pa.types.is_struct(kind):
        properties = {each.name: _optional(_json(each.type, f"{place}.{each.name}")) for each in kind}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    raise _refused(kind, place)


def _optional(schema: dict[str, object]) -> dict[str, object]:
    return {**schema, "type": [schema["type"], "null"]}


def _proto_fields(columns: pa.StructType, place: str, numbers: Numbers) -> list[str]:
    """Fields, after the messages that they use."""
    following = max((number for number, _ in numbers.values()), default=0)
    messages: list[str] = []
    fields: list[str] = []
    for each in columns:
        at = f"{place}.{each.name}"
        known = numbers.get(_checked(each.name, at))
        if known is None:
            following += 1
        number, inner = known or (following, {})
        kind = each.type
        label = "optional"
        if pa.types.is_list(kind):
            label, kind = "repeated", kind.value_type
        if pa.types.is_map(kind) and label == "optional" and kind.key_type == pa.string():
            word = f"map<string, {_proto_type(kind.item_type, each.name, at, inner, messages)}>"
            fields.append(f"  {word} {each.name} = {number};")
            continue
        fields.append(f"  {label} {_proto_type(kind, each.name, at, inner, messages)} {each.name} = {number};")
    return [*messages, *fields]


def _proto_type(kind: pa.DataType, name: str, place: str, numbers: Numbers, messages: list[str]) -> str:
    if kind in _SCALARS:
        return _SCALARS[kind][2]
    if pa.types.is_timestamp(kind):
        return _TIMESTAMP
    if pa.types.is_decimal(kind):
        return "string"
    if not pa.types.is_struct(kind):
        raise _refused(kind, place)
    message = f"M_{name}"
    inner = _proto_fields(kind, place, numbers)
    messages += [f"  message {message} {{", *(f"  {line}" for line in inner), "  }"]
    return message
