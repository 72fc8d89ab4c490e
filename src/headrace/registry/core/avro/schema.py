"""The tree of an Avro schema, which the parser builds and the printer and the compatibility check walk.

A named type that is used twice is one object in the tree. So recursive schemas are cycles, and identity means equality.
"""

from __future__ import annotations

from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True, slots=True)
class Name:
    simple: str
    space: str | None

    @property
    def full(self) -> str:
        return f"{self.space}.{self.simple}" if self.space else self.simple


class Schema:
    """Each schema has a `kind` (Avro's type name) and its own properties (`props`)."""

    __slots__ = ("kind", "props")

    def __init__(self, kind: str, props: dict[str, JsonValue]) -> None:
        self.kind = kind
        self.props = props

    @property
    def label(self) -> str:
        """Name of the schema in messages."""
        return self.kind


class Primitive(Schema):
    __slots__ = ()


class Array(Schema):
    __slots__ = ("items",)

    def __init__(self, items: Schema, props: dict[str, JsonValue]) -> None:
        super().__init__("array", props)
        self.items = items


class Map(Schema):
    __slots__ = ("values",)

    def __init__(self, values: Schema, props: dict[str, JsonValue]) -> None:
        super().__init__("map", props)
        self.values = values


class Union(Schema):
    __slots__ = ("branches",)

    def __init__(self, branches: tuple[Schema, ...]) -> None:
        super().__init__("union", {})
        self.branches = branches


class Named(Schema):
    __slots__ = ("aliases", "doc", "name")

    def __init__(
        self, kind: str, name: Name, doc: str | None, aliases: tuple[Name, ...], props: dict[str, JsonValue]
    ) -> None:
        super().__init__(kind, props)
        self.name = name
        self.doc = doc
        self.aliases = aliases

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name.full}"


class Fixed(Named):
    __slots__ = ("size",)

    def __init__(
        self, name: Name, doc: str | None, aliases: tuple[Name, ...], props: dict[str, JsonValue], size: int
    ) -> None:
        super().__init__("fixed", name, doc, aliases, props)
        self.size = size


class Enum(Named):
    __slots__ = ("default", "symbols")

    def __init__(
        self,
        name: Name,
        doc: str | None,
        aliases: tuple[Name, ...],
        props: dict[str, JsonValue],
        symbols: tuple[str, ...],
        default: str | None,
    ) -> None:
        super().__init__("enum", name, doc, aliases, props)
        self.symbols = symbols
        self.default = default


NO_DEFAULT: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: Schema
    doc: str | None
    default: JsonValue  # NO_DEFAULT where there is none: null is a default
    order: str
    aliases: tuple[str, ...]
    props: dict[str, JsonValue]

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


class Record(Named):
    """`fields` are set once, right after construction: they may contain the record itself."""

    __slots__ = ("fields", "is_error")

    def __init__(
        self, name: Name, doc: str | None, aliases: tuple[Name, ...], props: dict[str, JsonValue], *, is_error: bool
    ) -> None:
        super().__init__("record", name, doc, aliases, props)
        self.is_error = is_error
        self.fields: dict[str, Field] = {}
