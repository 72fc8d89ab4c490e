"""Defaults of fields as Python values.

A default in a schema is JSON: bytes and decimals are text with one character a byte, dates are numbers. fastavro gives
it as it is for a field that the writer does not have. So a reader's schema gets the values instead.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from headrace.serialization.avro.schema import AvroSchema
from headrace.serialization.avro.writer import AvroWriters, Mismatch


def default_value(schema: AvroSchema, field: Mapping[str, Any]) -> Any:
    """Writes the default without its logical type and reads it with it. Raises ValueError if it does not fit."""
    out = bytearray()
    AvroWriters(schema, logical=False).writer(field["type"])(out, field["default"])
    try:
        return fastavro.schemaless_reader(io.BytesIO(bytes(out)), schema.resolved(field["type"]), None)
    except (KeyError, SchemaParseException) as fault:
        raise ValueError(f"field {field['name']!r}: its default cannot be read: {fault}") from fault


def set_native_defaults(schema: AvroSchema) -> None:
    """Changes the parsed schema. A default that does not fit its type stays, as Avro's libraries accept it."""
    fields = list(_fields(schema.root, set()))
    for named in schema.named.values():
        fields += _fields(named, set())
    values = []
    for field in fields:
        try:
            values.append((field, default_value(schema, field)))
        except (Mismatch, ValueError):
            continue
    for field, value in values:
        field["default"] = value


def _fields(node: Any, seen: set[int]) -> Iterator[dict[str, Any]]:
    """Every field with a default below the node."""
    if isinstance(node, list):
        for each in node:
            yield from _fields(each, seen)
    if not isinstance(node, dict) or id(node) in seen:
        return
    seen.add(id(node))
    for field in node.get("fields", ()):
        if "default" in field:
            yield field
        yield from _fields(field["type"], seen)
    for name in ("items", "values", "type"):
        yield from _fields(node.get(name), seen)
