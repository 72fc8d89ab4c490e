"""The form fields of the latest schema of a topic's keys or values. Blocking code; pages run it in threads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.console.core.schema_fields import (
    BOOLEAN,
    CHOICE,
    INTEGER,
    JSON,
    NUMBER,
    TEXT,
    SchemaField,
    avro_fields,
    json_fields,
)
from headrace.serialization.errors import RegistryError, SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, PROTOBUF, RegisteredSchema
from headrace.serialization.schema import JSON as JSON_SCHEMA

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_DEEPEST: Final = 4


def fields_of(registry: RegistryClient | None, topic: str, *, is_key: bool = False) -> list[SchemaField]:
    """Empty without a registry, a schema, or fields in it. Without an answer of the registry the form takes JSON."""
    if registry is None:
        return []
    try:
        schema = registry.latest(f"{topic}-{'key' if is_key else 'value'}")
        if schema.kind == AVRO:
            return avro_fields(json.loads(schema.text))
        if schema.kind == JSON_SCHEMA:
            return json_fields(json.loads(schema.text))
        if schema.kind == PROTOBUF:
            return _protobuf_fields(schema, registry)
    except (RegistryError, SerializationError, ValueError, AttributeError, TypeError):
        pass
    return []


def _protobuf_fields(schema: RegisteredSchema, registry: RegistryClient) -> list[SchemaField]:
    from headrace.serialization.protobuf.codec import ProtobufCodec

    found: list[SchemaField] = []
    _message(ProtobufCodec(schema, registry).written(), (), found, 0)
    return found


def _message(message: Descriptor, path: tuple[str, ...], found: list[SchemaField], depth: int) -> None:
    for field in message.fields:
        here = (*path, str(field.name))
        is_single = not field.is_repeated
        inner = field.message_type
        if is_single and inner is not None and not inner.full_name.startswith("google.") and depth < _DEEPEST:
            _message(inner, here, found, depth + 1)
            continue
        choices = tuple(value.name for value in field.enum_type.values) if is_single and field.enum_type else ()
        kind = _kind(field) if is_single else JSON
        # An absent field has its default.
        found.append(SchemaField(here, kind, is_optional=True, choices=choices))


def _kind(field: FieldDescriptor) -> str:
    kinds = {
        field.CPPTYPE_INT32: INTEGER, field.CPPTYPE_INT64: INTEGER, field.CPPTYPE_UINT32: INTEGER,
        field.CPPTYPE_UINT64: INTEGER, field.CPPTYPE_DOUBLE: NUMBER, field.CPPTYPE_FLOAT: NUMBER,
        field.CPPTYPE_BOOL: BOOLEAN, field.CPPTYPE_ENUM: CHOICE, field.CPPTYPE_STRING: TEXT,
    }  # fmt: skip
    return kinds.get(field.cpp_type, JSON)
