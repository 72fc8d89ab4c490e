"""Avro text to a schema tree, with Apache Avro's leniency: names are not checked, unknown properties are kept.

Errors name the place as a path (`fields[2].type`) and what is expected there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from headrace.registry.core.avro.schema import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Primitive,
    Record,
    Schema,
    Union,
)
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.json_text import parse_json

T = TypeVar("T", Fixed, Enum, Record)
_RESERVED: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_RESERVED: Final = _RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS: Final = ("ascending", "descending", "ignore")
_LARGEST_FIXED: Final = 2**31 - 1


def parse_avro(text: str, references: Iterable[str] = ()) -> tuple[Schema, frozenset[str]]:
    """The tree, and the full names that the references define. Raises InvalidSchema."""
    parser = _Parser()
    for reference in references:
        parser.schema(parse_json(reference, "the referenced Avro schema"), None, "")
    known = frozenset(parser.names)
    return parser.schema(parse_json(text, "the Avro schema"), None, ""), known


class _Parser:
    def __init__(self) -> None:
        self.names: dict[str, Schema] = {}

    def schema(self, node: Any, space: str | None, at: str) -> Schema:
        if isinstance(node, str):
            return self._named(node, space, at)
        if isinstance(node, list):
            return self._union(node, space, at)
        if isinstance(node, dict):
            return self._object(node, space, at)
        raise _wrong(at, f"{node!r} is not a schema: use a type name, an object with `type`, or a list for a union")

    def _named(self, text: str, space: str | None, at: str) -> Schema:
        if text in PRIMITIVES:
            return Primitive(text, {})
        name = _name(text, space)
        # A simple name may also mean a type without a namespace.
        found = self.names.get(name.full) or (self.names.get(text) if "." not in text else None)
        if found is None:
            raise _wrong(
                at,
                f'"{name.full}" is not a defined name: define the type before its first use, '
                "or add a reference to the subject that holds it",
            )
        return found

    def _union(self, nodes: list[Any], space: str | None, at: str) -> Union:
        branches: list[Schema] = []
        taken: set[str] = set()
        for index, node in enumerate(nodes):
            branch = self.schema(node, space, f"{at}[{index}]")
            if isinstance(branch, Union):
                raise _wrong(f"{at}[{index}]", "a union stands directly in a union: write its types into the outer one")
            key = branch.name.full if isinstance(branch, Fixed | Enum | Record) else branch.kind
            if key in taken:
                raise _wrong(f"{at}[{index}]", f"the union has {key} twice: each type may be there once")
            taken.add(key)
            branches.append(branch)
        return Union(tuple(branches))

    def _object(self, node: dict[str, Any], space: str | None, at: str) -> Schema:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise _wrong(at, 'an object needs a "type" that is a string')
        props = {name: value for name, value in node.items() if name not in _RESERVED}
        if kind in PRIMITIVES:
            return Primitive(kind, props)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, node, space, props, at)
        if kind == "array":
            return Array(self._part(node, "items", space, at), props)
        if kind == "map":
            return Map(self._part(node, "values", space, at), props)
        return self._named(kind, space, at)

    def _part(self, node: Mapping[str, Any], name: str, space: str | None, at: str) -> Schema:
        if name not in node:
            raise _wrong(at, f'{node["type"]} has no "{name}"')
        return self.schema(node[name], space, _below(at, name))

    def _definition(
        self, kind: str, node: dict[str, Any], space: str | None, props: dict[str, Any], at: str
    ) -> Fixed | Enum | Record:
        simple = node.get("name")
        if not isinstance(simple, str) or not simple:
            raise _wrong(at, f'{kind} has no "name"')
        given = node.get("namespace")
        name = _name(simple, given if isinstance(given, str) else space)
        doc = node.get("doc")
        doc = doc if isinstance(doc, str) else None
        aliases = tuple(_name(alias, name.space) for alias in _aliases(node, at))
        if name.full in self.names or name.full in PRIMITIVES:
            raise _wrong(at, f'"{name.full}" is defined twice: refer to it by its name instead')
        if kind == "fixed":
            return self._keep(name, Fixed(name, doc, aliases, props, _size(node, at)))
        if kind == "enum":
            props = {key: value for key, value in props.items() if key not in _ENUM_RESERVED}
            return self._keep(name, _enum(node, name, doc, aliases, props, at))
        record = self._keep(name, Record(name, doc, aliases, props, is_error=kind == "error"))
        self._fields(record, node, at)
        return record

    def _keep(self, name: Name, made: T) -> T:
        self.names[name.full] = made
        return made

    def _fields(self, record: Record, node: dict[str, Any], at: str) -> None:
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise _wrong(at, 'record has no "fields" list')
        for index, each in enumerate(fields):
            place = f"{_below(at, 'fields')}[{index}]"
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not name:
                raise _wrong(place, 'a field is an object with a "name"')
            if name in record.fields:
                raise _wrong(place, f'field "{name}" is there twice in {record.name.full}')
            if "type" not in each:
                raise _wrong(place, f'field "{name}" has no "type"')
            order = str(each.get("order", "ascending")).lower()
            if order not in _ORDERS:
                raise _wrong(place, f'order "{order}": must be ascending, descending or ignore')
            doc = each.get("doc")
            record.fields[name] = Field(
                name,
                self.schema(each["type"], record.name.space, f"{place}.type"),
                doc if isinstance(doc, str) else None,
                each.get("default", NO_DEFAULT),
                order,
                tuple(_aliases(each, place)),
                {key: value for key, value in each.items() if key not in _FIELD_RESERVED},
            )


def _enum(
    node: dict[str, Any], name: Name, doc: str | None, aliases: tuple[Name, ...], props: dict[str, Any], at: str
) -> Enum:
    symbols = node.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
        raise _wrong(at, 'enum has no "symbols" list of strings')
    if len(set(symbols)) != len(symbols):
        raise _wrong(at, f"enum {name.full} has a symbol twice")
    default = node.get("default")
    if default is not None and default not in symbols:
        raise _wrong(at, f'the default "{default}" of enum {name.full} is not among its symbols')
    return Enum(name, doc, aliases, props, tuple(symbols), default)


def _size(node: dict[str, Any], at: str) -> int:
    size = node.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_FIXED:
        raise _wrong(at, f'fixed needs a "size" that is a number of bytes, not {size!r}')
    return size


def _name(text: str, space: str | None) -> Name:
    """A dotted name carries its own namespace; an empty one means none."""
    before, dot, simple = text.rpartition(".")
    return Name(simple, before or None) if dot else Name(text, space or None)


def _aliases(node: dict[str, Any], at: str) -> list[str]:
    aliases = node.get("aliases")
    if aliases is None:
        return []
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
        raise _wrong(at, '"aliases" is not a list of strings')
    return list(dict.fromkeys(aliases))


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _wrong(at: str, why: str) -> InvalidSchema:
    return InvalidSchema(f"Invalid Avro schema{' at ' + at if at else ''}: {why}")
