"""Checks the defaults of fields, which Apache Avro and the registry accept unchecked unless `validateFields` is set.

A default of a union belongs to any of its branches, as in Avro 1.12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.avro.schema import Array, Enum, Fixed, Map, Record, Schema, Union

_INTEGERS: Final = {"int": 31, "long": 63}


def default_faults(schema: Schema) -> list[str]:
    return list(_walk(schema, set()))


def _walk(schema: Schema, visited: set[int]) -> Iterator[str]:
    if id(schema) in visited:
        return
    visited.add(id(schema))
    if isinstance(schema, Union):
        for branch in schema.branches:
            yield from _walk(branch, visited)
    elif isinstance(schema, Array):
        yield from _walk(schema.items, visited)
    elif isinstance(schema, Map):
        yield from _walk(schema.values, visited)
    elif isinstance(schema, Record):
        for field in schema.fields.values():
            if field.has_default and not _is_value(field.schema, field.default):
                wanted = _kinds(field.schema)
                yield f"field {schema.name.full}.{field.name}: the default {field.default!r:.80} is not a {wanted}"
            yield from _walk(field.schema, visited)


def _kinds(schema: Schema) -> str:
    return " or ".join(each.label for each in schema.branches) if isinstance(schema, Union) else schema.label


def _is_value(schema: Schema, value: JsonValue) -> bool:
    """Whether the JSON form of a value belongs to the schema."""
    if isinstance(schema, Union):
        return any(_is_value(branch, value) for branch in schema.branches)
    if isinstance(schema, Array):
        return isinstance(value, list) and all(_is_value(schema.items, each) for each in value)
    if isinstance(schema, Map):
        return isinstance(value, dict) and all(_is_value(schema.values, each) for each in value.values())
    if isinstance(schema, Record):
        return isinstance(value, dict) and all(
            _is_value(field.schema, value[field.name]) if field.name in value else field.has_default
            for field in schema.fields.values()
        )
    if isinstance(schema, Enum):
        return value in schema.symbols
    if isinstance(schema, Fixed):
        return isinstance(value, str) and len(value) == schema.size
    return _is_primitive(schema.kind, value)


def _is_primitive(kind: str, value: JsonValue) -> bool:
    if kind in _INTEGERS:
        limit = 1 << _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    if kind == "boolean":
        return isinstance(value, bool)
    return value is None if kind == "null" else isinstance(value, str)
