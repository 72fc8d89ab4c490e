"""The Arrow columns of a Protobuf message, and the values of one message in their form.

An unsigned 64-bit number is a decimal, because Arrow's readers (Spark, Java) have no such integer. `Struct`, `Value`,
`ListValue`, `Any` and messages that contain themselves become a string column with the value as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from headrace.serialization.columns.lists import list_of
from headrace.serialization.protobuf.values import is_map, json_form, message_values

_F: Final = FieldDescriptor
_UNSIGNED_64: Final = pa.decimal128(20, 0)
_SCALARS: Final = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), pa.int32()),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), pa.int64()),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), pa.int64()),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), _UNSIGNED_64),
    _F.TYPE_FLOAT: pa.float32(),
    _F.TYPE_DOUBLE: pa.float64(),
    _F.TYPE_BOOL: pa.bool_(),
    _F.TYPE_STRING: pa.string(),
    _F.TYPE_BYTES: pa.binary(),
    _F.TYPE_ENUM: pa.string(),
}
_GOOGLE: Final = "google.protobuf."
_SPECIAL: Final = {
    "Timestamp": pa.timestamp("us", tz="UTC"),
    "Duration": pa.duration("us"),
    "DoubleValue": pa.float64(),
    "FloatValue": pa.float32(),
    "Int64Value": pa.int64(),
    "UInt64Value": _UNSIGNED_64,
    "Int32Value": pa.int32(),
    "UInt32Value": pa.int64(),
    "BoolValue": pa.bool_(),
    "StringValue": pa.string(),
    "BytesValue": pa.binary(),
}
_JSON: Final = ("Struct", "Value", "ListValue", "Any")
Convert = Callable[[Any], Any]


class ProtobufColumns:
    def __init__(self, descriptor: Any) -> None:
        self.type, self.row = _message(descriptor, ())


def _message(descriptor: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    name = descriptor.full_name
    short = name.removeprefix(_GOOGLE) if name.startswith(_GOOGLE) else ""
    if short in _SPECIAL:
        return _SPECIAL[short], message_values
    if short in _JSON or name in within or not descriptor.fields:
        return pa.string(), _json
    parts = [(field, *_field(field, (*within, name))) for field in descriptor.fields]

    def row(message: Any) -> Any:
        return {field.name: convert(message) for field, _, convert in parts}

    return pa.struct([pa.field(field.name, kind) for field, kind, _ in parts]), row


def _json(message: Any) -> str:
    return json.dumps(json_form(message, original_names=True), ensure_ascii=False)


def _field(field: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    """The type, and a function from the message around the field."""
    name = field.name
    if is_map(field):
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        (key_type, convert_key), (kind, convert) = _one(key, within), _one(value, within)
        return pa.map_(key_type, kind), lambda message: [
            (convert_key(k), convert(v)) for k, v in getattr(message, name).items()
        ]
    kind, convert = _one(field, within)
    if field.is_repeated:
        return list_of(kind), lambda message: [convert(each) for each in getattr(message, name)]
    if field.has_presence:
        return kind, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return kind, lambda message: convert(getattr(message, name))


def _one(field: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if field.message_type is not None:
        return _message(field.message_type, within)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return pa.string(), lambda value: names.get(value, str(value))
    return _SCALARS[field.type], _same


def _same(value: Any) -> Any:
    return value
