"""Whether a new .proto file may follow an old one, by Confluent's rules, which are based on the wire format.

Fields are identified by their numbers. Types of one group have the same wire format, so they may replace each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.protobuf.file import SCALARS, Field, Message, OneOf, ProtoFile
from headrace.registry.core.protobuf.names import Names

_GROUPS: Final = (
    {"int32", "int64", "uint32", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
_MESSAGE: Final = "message"


class Files:
    """A file with all its imports."""

    def __init__(self, file: ProtoFile, imported: Mapping[str, ProtoFile]) -> None:
        self.file = file
        self.imported = imported
        self.names = Names(file, imported)


def proto_incompatibilities(old: Files, new: Files) -> Iterator[Incompatibility]:
    yield from _file(old, new)
    for name, file in old.imported.items():
        update = new.imported.get(name)
        if update is not None and update != file:
            yield from _file(Files(file, old.imported), Files(update, new.imported))


def _file(old: Files, new: Files) -> Iterator[Incompatibility]:
    if old.file.package != new.file.package:
        yield _fault(
            "PACKAGE_CHANGED", "#/", f"the package changed from '{old.file.package}' to '{new.file.package}'",
            f"keep the package '{old.file.package}'",
        )  # fmt: skip
        return
    after = new.names.messages
    for name, message in old.names.messages.items():
        if name not in after:
            yield _fault(
                "MESSAGE_REMOVED",
                f"#/{name}",
                f"message {name} was removed",
                f"keep message {name}, with its fields reserved",
            )
        else:
            yield from _message(old, new, message, after[name], name)


def _message(old: Files, new: Files, before: Message, after: Message, name: str) -> Iterator[Incompatibility]:
    olds = {field.number: field for field in before.all_fields()}
    news = {field.number: field for field in after.all_fields()}
    for number in sorted(olds.keys() | news.keys()):
        at = f"#/{name}/{number}"
        if number not in news:
            if olds[number].label == "required":
                yield _required("REQUIRED_FIELD_REMOVED", at, olds[number])
        elif number not in olds:
            if news[number].label == "required":
                yield _required("REQUIRED_FIELD_ADDED", at, news[number])
        else:
            yield from _field(old, new, olds[number], news[number], name, at)
    yield from _one_ofs(before, after, name)


def _required(kind: str, at: str, field: Field) -> Incompatibility:
    return _fault(kind, at, f"field '{field.name}' is required", f"make '{field.name}' optional in a version between")


def _field(old: Files, new: Files, before: Field, after: Field, scope: str, at: str) -> Iterator[Incompatibility]:
    first, second = old.names.field_types(before, scope), new.names.field_types(after, scope)
    if len(first) != len(second):
        yield _fault(
            "FIELD_KIND_CHANGED", at, f"field '{before.name}' changed from {before.type} to {after.type}",
            _new_number(before),
        )  # fmt: skip
        return
    for one, two in zip(first, second, strict=True):
        kind = _difference(_kind(old, one), _kind(new, two), one, two)
        if kind is not None:
            yield _fault(
                kind, at, f"the type of field '{before.name}' changed from {one} to {two}", _new_number(before)
            )
            return
    if (before.label == "repeated") != (after.label == "repeated") and _kind(old, first[0]) not in (
        "string",
        "bytes",
        _MESSAGE,
    ):
        yield _fault(
            "FIELD_NUMERIC_LABEL_CHANGED", at, f"field '{before.name}' changed between single and repeated",
            _new_number(before),
        )  # fmt: skip


def _new_number(field: Field) -> str:
    return f"keep {field.type} for the number {field.number}, and add the new field with a new number"


def _kind(files: Files, type_: str) -> str:
    if type_ in SCALARS:
        return type_
    return "enum" if files.names.is_enum(type_) else _MESSAGE


def _difference(before: str, after: str, first: str, second: str) -> str | None:
    if before == after == _MESSAGE:
        return None if first == second else "FIELD_NAMED_TYPE_CHANGED"
    if before == after or any(before in group and after in group for group in _GROUPS):
        return None
    return "FIELD_KIND_CHANGED" if _MESSAGE in (before, after) else "FIELD_SCALAR_KIND_CHANGED"


def _one_ofs(before: Message, after: Message, name: str) -> Iterator[Incompatibility]:
    olds = {each.name: each for each in before.one_ofs}
    news = {field.number for field in after.all_fields()}
    plain = {field.number: field.name for field in before.fields}
    for one_of in after.one_ofs:
        at = f"#/{name}/{one_of.name}"
        moved = [plain[field.number] for field in one_of.fields if field.number in plain]
        known = _renamed(one_of, olds)
        if known is not None:
            if moved:
                yield _fault(
                    "FIELD_MOVED_TO_EXISTING_ONEOF", at, f"field '{moved[0]}' moved into the oneof '{one_of.name}'",
                    f"keep '{moved[0]}' outside, or add a new field to the oneof",
                )  # fmt: skip
            for field in known.fields:
                if field.number not in news:
                    yield _fault(
                        "ONEOF_FIELD_REMOVED", f"{at}/{field.number}",
                        f"field '{field.name}' was removed from the oneof '{known.name}'", f"keep '{field.name}'",
                    )  # fmt: skip
        elif len(moved) > 1:
            listed = ", ".join(f"'{each}'" for each in moved)
            yield _fault(
                "MULTIPLE_FIELDS_MOVED_TO_ONEOF", at, f"the fields {listed} moved into the new oneof '{one_of.name}'",
                "move one field only: old data may have several of them set",
            )  # fmt: skip


def _renamed(one_of: OneOf, olds: Mapping[str, OneOf]) -> OneOf | None:
    """The old oneof with this name, or one that shares a field, because the wire format has no names."""
    if one_of.name in olds:
        return olds[one_of.name]
    numbers = {field.number for field in one_of.fields}
    return next((each for each in olds.values() if numbers & {field.number for field in each.fields}), None)


def _fault(kind: str, path: str, reason: str, way_out: str) -> Incompatibility:
    return Incompatibility(kind, path, f"at '{path}': {reason}", way_out)
