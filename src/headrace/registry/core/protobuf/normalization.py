"""Normalises a tree: files that differ only in order or in the form of type names become equal.

Messages keep their order, because the prefix of a record refers to its message by position.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.registry.core.protobuf.file import Enum, Field, Message, OneOf, Option, ProtoFile
from headrace.registry.core.protobuf.names import Names


def normalized_file(file: ProtoFile, names: Names) -> ProtoFile:
    return ProtoFile(
        file.syntax if file.syntax == "proto3" else None,
        file.package,
        tuple(sorted(set(file.imports))),
        tuple(sorted(set(file.public_imports))),
        _options(file.options),
        tuple(_message(each, file.package, names) for each in file.messages),
        tuple(map(_enum, file.enums)),
        file.extends,
        file.services,
    )


def _message(message: Message, scope: str, names: Names) -> Message:
    own = f"{scope}.{message.name}" if scope else message.name
    one_ofs = [OneOf(each.name, _fields(each.fields, own, names)) for each in message.one_ofs if each.fields]
    return Message(
        message.name,
        _fields(message.fields, own, names),
        tuple(sorted(one_ofs, key=lambda each: each.fields[0].number)),
        tuple(_message(each, own, names) for each in message.messages),
        tuple(map(_enum, message.enums)),
        _options(message.options),
        _reserved(message.reserved),
        _reserved(message.extensions),
        message.extends,
    )


def _fields(fields: Iterable[Field], scope: str, names: Names) -> tuple[Field, ...]:
    made = (
        Field(each.name, each.number, _type(each, scope, names), each.label, _options(each.options)) for each in fields
    )
    return tuple(sorted(made, key=lambda each: each.number))


def _type(field: Field, scope: str, names: Names) -> str:
    types = [f".{full}" if full in names.types else full for full in names.field_types(field, scope)]
    return types[0] if len(types) == 1 else f"map<{types[0]}, {types[1]}>"


def _enum(enum: Enum) -> Enum:
    values = tuple(sorted(enum.values, key=lambda each: (each.number, each.name)))
    return Enum(enum.name, values, _options(enum.options), _reserved(enum.reserved))


def _options(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(options, key=lambda each: each.name))


def _reserved(texts: Iterable[str]) -> tuple[str, ...]:
    """One value per line: numbers first, then names."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    numbers = [part for part in parts if not part.startswith('"')]
    return (*sorted(numbers, key=lambda part: int(part.split()[0])), *sorted(set(parts) - set(numbers)))
