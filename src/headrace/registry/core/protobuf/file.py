"""A .proto file as a tree. Field types stay as they are written; `names` resolves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.kernel.dataclass import dataclass

SCALARS: Final = frozenset(
    {
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
        "sfixed64", "bool", "string", "bytes",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    name: str  # with parentheses if it is an extension
    text: str  # the value as it is printed


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    number: int
    type: str  # `map<K, V>` for maps
    label: str | None = None
    options: tuple[Option, ...] = ()

    @property
    def map_types(self) -> tuple[str, str] | None:
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[4:-1].partition(",")
        return key.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class OneOf:
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class EnumValue:
    name: str
    number: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    values: tuple[EnumValue, ...]
    options: tuple[Option, ...] = ()
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extend:
    type: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: tuple[Field, ...] = ()
    one_ofs: tuple[OneOf, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enum, ...] = ()
    options: tuple[Option, ...] = ()
    reserved: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    extends: tuple[Extend, ...] = ()

    def all_fields(self) -> Iterator[Field]:
        yield from self.fields
        for each in self.one_ofs:
            yield from each.fields


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    input: str
    output: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    methods: tuple[Method, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtoFile:
    syntax: str | None = None
    package: str = ""
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enum, ...] = ()
    extends: tuple[Extend, ...] = ()
    services: tuple[Service, ...] = ()
