"""Converts FileDescriptorProto to a tree and back. confluent-kafka-python sends and requests schemas as descriptors."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.protobuf.file import (
    SCALARS,
    Enum,
    EnumValue,
    Field,
    Message,
    Method,
    OneOf,
    Option,
    ProtoFile,
    Service,
)
from headrace.registry.core.protobuf.names import Names

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_TYPE_PREFIX: Final = "TYPE_"
_OPTIONAL: Final = FieldDescriptorProto.LABEL_OPTIONAL
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED
_LABELS: Final = {_OPTIONAL: "optional", _REPEATED: "repeated", _REQUIRED: "required"}
_MAX: Final = 2**29


def decoded_descriptor(text: str) -> FileDescriptorProto | None:
    """The descriptor if the text is base64. The text of a .proto file always has characters outside base64."""
    if _BASE64.fullmatch(text) is None:
        return None
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (DecodeError, binascii.Error, ValueError):
        return None


def file_of(descriptor: FileDescriptorProto) -> ProtoFile:
    syntax = descriptor.syntax or "proto2"
    public = set(descriptor.public_dependency)
    dependencies = list(enumerate(descriptor.dependency))
    services = tuple(
        Service(
            each.name,
            tuple(
                Method(
                    method.name,
                    ("stream " if method.client_streaming else "") + method.input_type,
                    ("stream " if method.server_streaming else "") + method.output_type,
                )
                for method in each.method
            ),
        )
        for each in descriptor.service
    )
    return ProtoFile(
        syntax,
        descriptor.package,
        tuple(name for index, name in dependencies if index not in public),
        tuple(name for index, name in dependencies if index in public),
        _options(descriptor.options),
        tuple(_message(each, syntax) for each in descriptor.message_type),
        tuple(_enum(each) for each in descriptor.enum_type),
        (),
        services,
    )


def _options(options: JsonValue) -> tuple[Option, ...]:
    """Standard options that are set. Omits extensions, which are unknown fields to this process."""
    found = []
    for field, value in options.ListFields():
        if field.type == field.TYPE_MESSAGE or field.is_repeated:
            continue
        if field.type == field.TYPE_STRING:
            text = f'"{value}"'
        elif field.type == field.TYPE_BOOL:
            text = "true" if value else "false"
        else:
            text = field.enum_type.values_by_number[value].name if field.enum_type is not None else str(value)
        found.append(Option(field.name, text))
    return tuple(found)


def _message(descriptor: DescriptorProto, syntax: str) -> Message:
    entries = {each.name: each for each in descriptor.nested_type if each.options.map_entry}
    plain: list[Field] = []
    grouped: dict[int, list[Field]] = {}
    for each in descriptor.field:
        made = _field(each, entries, syntax)
        if each.HasField("oneof_index") and not each.proto3_optional:
            grouped.setdefault(each.oneof_index, []).append(made)
        else:
            plain.append(made)
    reserved = [_range(each.start, each.end - 1) for each in descriptor.reserved_range]
    reserved += [f'"{name}"' for name in descriptor.reserved_name]
    return Message(
        descriptor.name,
        tuple(plain),
        tuple(OneOf(descriptor.oneof_decl[index].name, tuple(fields)) for index, fields in grouped.items()),
        tuple(_message(each, syntax) for each in descriptor.nested_type if not each.options.map_entry),
        tuple(_enum(each) for each in descriptor.enum_type),
        _options(descriptor.options),
        tuple(reserved),
        tuple(_range(each.start, each.end - 1) for each in descriptor.extension_range),
    )


def _range(start: int, last: int) -> str:
    if start == last:
        return str(start)
    return f"{start} to {'max' if last >= _MAX - 1 else last}"


def _field(descriptor: FieldDescriptorProto, entries: dict[str, DescriptorProto], syntax: str) -> Field:
    options = list(_options(descriptor.options))
    if descriptor.HasField("default_value"):
        is_text = descriptor.type in (descriptor.TYPE_STRING, descriptor.TYPE_BYTES)
        text = f'"{descriptor.default_value}"' if is_text else descriptor.default_value
        options.append(Option("default", text))
    if descriptor.HasField("json_name") and descriptor.json_name != _json_name(descriptor.name):
        options.append(Option("json_name", f'"{descriptor.json_name}"'))
    entry = entries.get(descriptor.type_name.rpartition(".")[2]) if descriptor.label == _REPEATED else None
    if entry is not None:
        type_ = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
        return Field(descriptor.name, descriptor.number, type_, None, tuple(options))
    label: str | None = _LABELS[descriptor.label]
    in_one_of = descriptor.HasField("oneof_index") and not descriptor.proto3_optional
    if in_one_of or (syntax == "proto3" and label == "optional" and not descriptor.proto3_optional):
        label = None
    return Field(descriptor.name, descriptor.number, _type(descriptor), label, tuple(options))


def _type(descriptor: FieldDescriptorProto) -> str:
    if descriptor.type_name:
        return descriptor.type_name
    return FieldDescriptorProto.Type.Name(descriptor.type).removeprefix(_TYPE_PREFIX).lower()


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _enum(descriptor: EnumDescriptorProto) -> Enum:
    values = tuple(EnumValue(each.name, each.number, _options(each.options)) for each in descriptor.value)
    reserved = [_range(each.start, each.end) for each in descriptor.reserved_range]
    reserved += [f'"{name}"' for name in descriptor.reserved_name]
    return Enum(descriptor.name, values, _options(descriptor.options), tuple(reserved))


def descriptor_of(file: ProtoFile, names: Names) -> FileDescriptorProto:
    made = FileDescriptorProto(package=file.package, dependency=[*file.imports, *file.public_imports])
    made.public_dependency.extend(range(len(file.imports), len(made.dependency)))
    if file.syntax == "proto3":
        made.syntax = "proto3"
    _set_options(made.options, file.options)
    for message in file.messages:
        _fill(made.message_type.add(), message, file.package, names, file.syntax)
    for enum in file.enums:
        _fill_enum(made.enum_type.add(), enum)
    for service in file.services:
        added = made.service.add(name=service.name)
        for method in service.methods:
            added.method.add(
                name=method.name,
                input_type="." + names.full(method.input.removeprefix("stream "), file.package),
                output_type="." + names.full(method.output.removeprefix("stream "), file.package),
                client_streaming=method.input.startswith("stream ") or None,
                server_streaming=method.output.startswith("stream ") or None,
            )
    return made


def _set_options(target: JsonValue, options: tuple[Option, ...]) -> None:
    known = target.DESCRIPTOR.fields_by_name
    for option in options:
        field = known.get(option.name)
        if field is None or field.type == field.TYPE_MESSAGE or field.is_repeated:
            continue
        text = option.text.strip('"')
        if field.type == field.TYPE_BOOL:
            setattr(target, option.name, text == "true")
        elif field.enum_type is not None:
            if text in field.enum_type.values_by_name:
                setattr(target, option.name, field.enum_type.values_by_name[text].number)
        elif field.type == field.TYPE_STRING:
            setattr(target, option.name, text)


def _fill(made: DescriptorProto, message: Message, scope: str, names: Names, syntax: str | None) -> None:
    own = f"{scope}.{message.name}" if scope else message.name
    made.name = message.name
    _set_options(made.options, message.options)
    for field in message.fields:
        _fill_field(made, field, own, names, syntax)
    for index, one_of in enumerate(message.one_ofs):
        made.oneof_decl.add(name=one_of.name)
        for field in one_of.fields:
            _fill_field(made, field, own, names, syntax).oneof_index = index
    for added in made.field:
        if added.proto3_optional:
            added.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{added.name}")
    for nested in message.messages:
        _fill(made.nested_type.add(), nested, own, names, syntax)
    for enum in message.enums:
        _fill_enum(made.enum_type.add(), enum)
    for text in message.reserved:
        _fill_reserved(made, text)


def _fill_reserved(made: DescriptorProto, text: str) -> None:
    for part in text.split(","):
        part = part.strip()
        if part.startswith('"'):
            made.reserved_name.append(part.strip('"'))
        else:
            first, _, last = part.partition(" to ")
            end = _MAX if last.strip() == "max" else int(last or first) + 1
            made.reserved_range.add(start=int(first), end=end)


def _fill_field(
    made: DescriptorProto, field: Field, scope: str, names: Names, syntax: str | None
) -> FieldDescriptorProto:
    added = made.field.add(name=field.name, number=field.number, label=_OPTIONAL)
    maps = field.map_types
    if maps is not None:
        entry_name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = made.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        for number, (name, type_) in enumerate(zip(("key", "value"), maps, strict=True), 1):
            _set_type(entry.field.add(name=name, number=number, label=_OPTIONAL), names.full(type_, scope), names)
        added.label, added.type, added.type_name = (
            _REPEATED,
            FieldDescriptorProto.TYPE_MESSAGE,
            f".{scope}.{entry_name}",
        )
    else:
        _set_type(added, names.full(field.type, scope), names)
        if field.label in ("repeated", "required"):
            added.label = _REPEATED if field.label == "repeated" else _REQUIRED
        elif field.label == "optional" and syntax == "proto3":
            added.proto3_optional = True
    for option in field.options:
        if option.name == "json_name":
            added.json_name = option.text.strip('"')
        elif option.name == "default":
            added.default_value = option.text.strip('"')
    _set_options(added.options, field.options)
    return added


def _set_type(added: FieldDescriptorProto, full: str, names: Names) -> None:
    if full in SCALARS:
        added.type = FieldDescriptorProto.Type.Value(f"{_TYPE_PREFIX}{full.upper()}")
        return
    added.type = FieldDescriptorProto.TYPE_ENUM if names.is_enum(full) else FieldDescriptorProto.TYPE_MESSAGE
    added.type_name = f".{full}"


def _fill_enum(made: EnumDescriptorProto, enum: Enum) -> None:
    made.name = enum.name
    _set_options(made.options, enum.options)
    for value in enum.values:
        added = made.value.add(name=value.name, number=value.number)
        _set_options(added.options, value.options)
