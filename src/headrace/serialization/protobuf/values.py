"""A Protobuf message as Python values: a dict by field names.

A field that is not set is None if the schema can tell it from its default (messages, `optional`, members of a oneof),
else its default. Timestamps, durations and wrapped numbers become Python's own. An enum is the name of its value, or
its number if the schema does not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from headrace.serialization.errors import SerializationError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE: Final = FieldDescriptor.CPPTYPE_MESSAGE
_ENUM: Final = FieldDescriptor.CPPTYPE_ENUM


def _timestamp(message: Any) -> Any:
    return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def _duration(message: Any) -> Any:
    return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def json_form(message: Message, *, original_names: bool = False) -> Any:
    """The pool of the message knows the types of its schema, which an `Any` may hold."""
    pool: Any = message.DESCRIPTOR.file.pool
    return json_format.MessageToDict(message, preserving_proto_field_name=original_names, descriptor_pool=pool)


_SPECIAL: Final[dict[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    **dict.fromkeys(
        ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue", "google.protobuf.Any"),
        json_form,
    ),
    **{
        f"google.protobuf.{name}Value": lambda message: message.value
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
}


def message_values(message: Message) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name in _SPECIAL:
        return _SPECIAL[descriptor.full_name](message)
    return {field.name: _field(message, field) for field in descriptor.fields}


def converted(convert: Callable[[Message], Any], message: Message) -> Any:
    """Raises SerializationError for a value that has no other form: a time beyond Python's, an `Any` of an unknown
    type, a `Value` that is not a number."""
    try:
        return convert(message)
    except (TypeError, ValueError, OverflowError, json_format.Error) as fault:
        raise SerializationError(f"a value of {message.DESCRIPTOR.full_name} cannot be read: {fault}") from fault


def _field(message: Message, field: Any) -> Any:
    if is_map(field):
        entry = field.message_type.fields_by_name["value"]
        return {name: _one(entry, each) for name, each in getattr(message, field.name).items()}
    if field.is_repeated:
        return [_one(field, each) for each in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(field, getattr(message, field.name))


def _one(field: Any, value: Any) -> Any:
    if field.cpp_type == _MESSAGE:
        return message_values(value)
    if field.cpp_type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def is_map(field: Any) -> bool:
    entry = field.message_type
    return bool(field.is_repeated and entry is not None and entry.GetOptions().map_entry)
