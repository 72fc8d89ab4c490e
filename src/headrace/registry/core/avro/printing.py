"""Prints a schema tree byte for byte as `Schema.toString` of Apache Avro, with docs and properties."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.avro.schema import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Record,
    Schema,
    Union,
)
from headrace.registry.core.json_text import json_text

_LOGICAL: Final = ("logicalType", "precision", "scale")
# A user type with such a name is printed with its namespace, or it would be read as Avro's own type.
_AVRO_TYPES: Final = frozenset({*PRIMITIVES, "record", "error", "enum", "fixed", "array", "map", "union"})


def avro_text(schema: Schema, known: Iterable[str] = (), *, normalize: bool = False) -> str:
    """Types whose full names are `known` (defined in references) are printed as names. `normalize` sorts properties and
    aliases and omits empty docs."""
    return json_text(_Printer(set(known), normalize).document(schema, None))


class _Printer:
    def __init__(self, known: set[str], normalize: bool) -> None:
        self.known = known
        self.normalize = normalize

    def document(self, schema: Schema, space: str | None) -> JsonValue:
        if isinstance(schema, Union):
            return [self.document(branch, space) for branch in schema.branches]
        props = self._props(schema.props)
        if isinstance(schema, Array):
            return {"type": "array", "items": self.document(schema.items, space), **props}
        if isinstance(schema, Map):
            return {"type": "map", "values": self.document(schema.values, space), **props}
        if isinstance(schema, Named):
            return self._definition(schema, space)
        return {"type": schema.kind, **props} if props else schema.kind

    def _props(self, props: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if not self.normalize:
            return props
        first = [name for name in _LOGICAL if name in props and "logicalType" in props]
        return {name: props[name] for name in (*first, *sorted(props.keys() - set(first)))}

    def _definition(self, schema: Named, space: str | None) -> JsonValue:
        if schema.name.full in self.known:
            return _reference(schema.name, space)
        self.known.add(schema.name.full)
        found: dict[str, JsonValue] = {"type": schema.kind, "name": schema.name.simple}
        if schema.name.space is not None and schema.name.space != space:
            found["namespace"] = schema.name.space
        elif schema.name.space is None and space is not None:
            found["namespace"] = ""
        if self._shows(schema.doc):
            found["doc"] = schema.doc
        if isinstance(schema, Record):
            found["type"] = "error" if schema.is_error else "record"
            found["fields"] = [self._field(each, schema.name.space) for each in schema.fields.values()]
        elif isinstance(schema, Enum):
            found["symbols"] = schema.symbols
            if schema.default is not None:
                found["default"] = schema.default
        elif isinstance(schema, Fixed):
            found["size"] = schema.size
        found |= self._props(schema.props)
        if schema.aliases:
            found["aliases"] = self._sorted([_alias(each, schema.name.space) for each in schema.aliases])
        return found

    def _field(self, field: Field, space: str | None) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {"name": field.name, "type": self.document(field.schema, space)}
        if self._shows(field.doc):
            found["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            found["default"] = field.default
        if field.order != "ascending":
            found["order"] = field.order
        if field.aliases:
            found["aliases"] = self._sorted(list(field.aliases))
        return found | self._props(field.props)

    def _shows(self, doc: str | None) -> bool:
        return doc is not None and not (self.normalize and not doc)

    def _sorted(self, names: list[str]) -> list[str]:
        return sorted(names) if self.normalize else names


def _reference(name: Name, space: str | None) -> str:
    if name.space is None:
        return name.simple
    return name.simple if name.space == space and name.simple not in _AVRO_TYPES else name.full


def _alias(name: Name, space: str | None) -> str:
    return name.full if name.space is not None and name.space != space else name.simple
