"""Resolves type names to full names by Protobuf's scoping rules, from the inside out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.protobuf.file import SCALARS, Enum, Field, Message, ProtoFile


class Names:
    """The types of a file and of all its imports."""

    def __init__(self, file: ProtoFile, imported: Mapping[str, ProtoFile]) -> None:
        self.types: dict[str, Message | Enum] = {}
        self._own: dict[str, Message | Enum] = {}
        for each in imported.values():
            self.types.update(_declared(each))
        self._own = dict(_declared(file))
        self.types.update(self._own)

    @property
    def messages(self) -> dict[str, Message]:
        """Messages of the file itself, including nested ones, by full name."""
        return {name: each for name, each in self._own.items() if isinstance(each, Message)}

    def full(self, type_: str, scope: str) -> str:
        """The full name of a type. Raises InvalidSchema if it is not defined."""
        if type_ in SCALARS:
            return type_
        if type_.startswith("."):
            found = type_[1:] if type_[1:] in self.types else None
        else:
            found = next((each for each in _candidates(type_, scope) if each in self.types), None)
        if found is None:
            raise InvalidSchema(
                f"Invalid Protobuf schema: type '{type_}' in {scope or 'the file'} is not defined: "
                "define it, or import and reference the file that does"
            )
        return found

    def is_enum(self, full: str) -> bool:
        return isinstance(self.types.get(full), Enum)

    def field_types(self, field: Field, scope: str) -> tuple[str, ...]:
        """The full name of the field's type, or of the key and the value of a map."""
        maps = field.map_types
        return tuple(self.full(each, scope) for each in (maps if maps is not None else (field.type,)))

    def check(self) -> None:
        """Raises InvalidSchema unless the types of all fields are defined."""
        for name, message in self.messages.items():
            for field in message.all_fields():
                self.field_types(field, name)


def _candidates(type_: str, scope: str) -> Iterable[str]:
    parts = scope.split(".") if scope else []
    for length in range(len(parts), -1, -1):
        yield ".".join([*parts[:length], type_])


def _declared(file: ProtoFile) -> Iterable[tuple[str, Message | Enum]]:
    yield from _inside(file.messages, file.enums, file.package)


def _inside(messages: Iterable[Message], enums: Iterable[Enum], scope: str) -> Iterable[tuple[str, Message | Enum]]:
    prefix = f"{scope}." if scope else ""
    for enum in enums:
        yield prefix + enum.name, enum
    for message in messages:
        yield prefix + message.name, message
        yield from _inside(message.messages, message.enums, prefix + message.name)
