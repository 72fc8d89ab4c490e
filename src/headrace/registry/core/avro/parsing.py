"""Parses Avro text to a schema tree. As lenient as Apache Avro: names are not checked, unknown properties are kept.

Errors name the position as a path (`fields[2].type`) and the expected value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

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
    Primitive,
    Record,
    Schema,
    Union,
)
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.json_text import parse_json

C = TypeVar("C", Array, Map, Union, Record)
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
        parser.whole(parse_json(reference, "the referenced Avro schema"))
    known = frozenset(parser.names)
    return parser.whole(parse_json(text, "the Avro schema")), known


class _Unresolved(Schema):
    """Placeholder in the tree for a name that is not defined yet."""

    __slots__ = ("at", "name")

    def __init__(self, name: Name, at: str) -> None:
        super().__init__("", {})
        self.name = name
        self.at = at


class _Parser:
    """A type can be used by its simple name after its definition, and by its full name anywhere."""

    def __init__(self) -> None:
        self.names: dict[str, Named] = {}
        self._containers: list[Array | Map | Union | Record] = []

    def whole(self, document: JsonValue) -> Schema:
        schema = self.schema(document, None, "")
        for each in self._containers:
            if isinstance(each, Array):
                each.items = self._resolved(each.items)
            elif isinstance(each, Map):
                each.values = self._resolved(each.values)
            elif isinstance(each, Union):
                each.branches = tuple(self._resolved(branch) for branch in each.branches)
            else:
                for name, field in each.fields.items():
                    if isinstance(field.schema, _Unresolved):
                        each.fields[name] = replace(field, schema=self._resolved(field.schema))
        self._containers.clear()
        return self._resolved(schema)

    def _resolved(self, schema: Schema) -> Schema:
        if not isinstance(schema, _Unresolved):
            return schema
        found = self.names.get(schema.name.full)
        if found is None:
            raise _wrong(
                schema.at,
                f'"{schema.name.full}" is not a defined name: define the type, '
                "or add a reference to the subject that holds it",
            )
        return found

    def schema(self, node: JsonValue, space: str | None, at: str) -> Schema:
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
        return self.names.get(name.full) or self.names.get(text) or _Unresolved(name, at)

    def _union(self, nodes: list[JsonValue], space: str | None, at: str) -> Union:
        branches: list[Schema] = []
        taken: set[str] = set()
        for index, node in enumerate(nodes):
            branch = self.schema(node, space, f"{at}[{index}]")
            if isinstance(branch, Union):
                raise _wrong(f"{at}[{index}]", "a union stands directly in a union: write its types into the outer one")
            key = branch.name.full if isinstance(branch, Named | _Unresolved) else branch.kind
            if key in taken:
                raise _wrong(f"{at}[{index}]", f"the union has {key} twice: each type may be there once")
            taken.add(key)
            branches.append(branch)
        return self._container(Union(tuple(branches)))

    def _object(self, node: dict[str, JsonValue], space: str | None, at: str) -> Schema:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise _wrong(at, 'an object needs a "type" that is a string')
        props = {name: value for name, value in node.items() if name not in _RESERVED}
        if kind in PRIMITIVES:
            return Primitive(kind, props)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, node, space, props, at)
        if kind == "array":
            return self._container(Array(self._part(node, "items", space, at), props))
        if kind == "map":
            return self._container(Map(self._part(node, "values", space, at), props))
        return self._named(kind, space, at)

    def _part(self, node: Mapping[str, JsonValue], name: str, space: str | None, at: str) -> Schema:
        if name not in node:
            raise _wrong(at, f'{node["type"]} has no "{name}"')
        return self.schema(node[name], space, _below(at, name))

    def _definition(
        self, kind: str, node: dict[str, JsonValue], space: str | None, props: dict[str, JsonValue], at: str
    ) -> Named:
        simple = node.get("name")
        if not isinstance(simple, str) or not simple:
            raise _wrong(at, f'{kind} has no "name"')
        given = node.get("namespace")
        name = _name(simple, given if isinstance(given, str) else space)
        doc = node.get("doc")
        doc = doc if isinstance(doc, str) else None
        aliases = tuple(_name(alias, name.space) for alias in _aliases(node, at))
        if kind == "fixed":
            return self._keep(Fixed(name, doc, aliases, props, _size(node, at)), at)
        if kind == "enum":
            props = {key: value for key, value in props.items() if key not in _ENUM_RESERVED}
            return self._keep(_enum(node, name, doc, aliases, props, at), at)
        record = Record(name, doc, aliases, props, is_error=kind == "error")
        self._fields(record, node, at)
        return self._keep(self._container(record), at)

    def _keep(self, made: Named, at: str) -> Named:
        """A type may be defined twice if both definitions are equal; the first one counts."""
        known = self.names.setdefault(made.name.full, made)
        if not _are_equal(known, made) or made.name.full in PRIMITIVES:
            raise _wrong(at, f'"{made.name.full}" is defined twice: refer to it by its name instead')
        return known

    def _container(self, made: C) -> C:
        self._containers.append(made)
        return made

    def _fields(self, record: Record, node: dict[str, JsonValue], at: str) -> None:
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
            schema = self.schema(each["type"], record.name.space, f"{place}.type")
            record.fields[name] = Field(
                name,
                schema,
                doc if isinstance(doc, str) else None,
                _default(each.get("default", NO_DEFAULT), schema, place),
                order,
                tuple(_aliases(each, place)),
                {key: value for key, value in each.items() if key not in _FIELD_RESERVED},
            )


def _are_equal(first: Schema, second: Schema) -> bool:
    """Compares as Apache Avro does: without docs and aliases."""
    if first is second:
        return True
    if type(first) is not type(second) or first.kind != second.kind or first.props != second.props:
        return False
    if isinstance(first, Named | _Unresolved) and isinstance(second, Named | _Unresolved) and first.name != second.name:
        return False
    if isinstance(first, Fixed) and isinstance(second, Fixed):
        return first.size == second.size
    if isinstance(first, Enum) and isinstance(second, Enum):
        return first.symbols == second.symbols
    return len(_below_of(first)) == len(_below_of(second)) and all(
        one[0] == two[0] and _are_equal(one[1], two[1])
        for one, two in zip(_below_of(first), _below_of(second), strict=True)
    )


def _below_of(schema: Schema) -> list[tuple[JsonValue, Schema]]:
    """The direct child schemas, each with the other properties that must be equal."""
    if isinstance(schema, Array):
        return [(None, schema.items)]
    if isinstance(schema, Map):
        return [(None, schema.values)]
    if isinstance(schema, Union):
        return [(None, branch) for branch in schema.branches]
    if isinstance(schema, Record):
        return [((each.name, each.default, each.order, each.props), each.schema) for each in schema.fields.values()]
    return []


def _enum(
    node: dict[str, JsonValue],
    name: Name,
    doc: str | None,
    aliases: tuple[Name, ...],
    props: dict[str, JsonValue],
    at: str,
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


def _default(value: JsonValue, schema: Schema, at: str) -> JsonValue:
    """Defaults are not checked; Apache Avro reads text for a float or double as a number."""
    if not isinstance(value, str) or schema.kind not in ("float", "double"):
        return value
    try:
        return float(value)
    except ValueError as fault:
        raise _wrong(at, f'the default "{value}" of a {schema.kind} is not a number') from fault


def _size(node: dict[str, JsonValue], at: str) -> int:
    size = node.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_FIXED:
        raise _wrong(at, f'fixed needs a "size" that is a number of bytes, not {size!r}')
    return size


def _name(text: str, space: str | None) -> Name:
    """A dotted name includes its namespace. An empty namespace means none."""
    before, dot, simple = text.rpartition(".")
    return Name(simple, before or None) if dot else Name(text, space or None)


def _aliases(node: dict[str, JsonValue], at: str) -> list[str]:
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
