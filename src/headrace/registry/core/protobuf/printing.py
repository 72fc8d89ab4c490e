"""Prints a .proto tree as the text that Confluent's registry stores: no comments, two spaces of indentation, messages
before enums, one blank line between the parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.registry.core.protobuf.file import Enum, Extend, Field, Message, Option, ProtoFile, Service


def proto_text(file: ProtoFile) -> str:
    head = f'syntax = "{file.syntax}";\n' if file.syntax is not None else ""
    head += f"package {file.package};\n" if file.package else ""
    imports = [f'import "{each}";\n' for each in file.imports]
    imports += [f'import public "{each}";\n' for each in file.public_imports]
    types = [*map(_message, file.messages), *map(_enum, file.enums)]
    parts = (
        imports,
        [_option(each) for each in file.options],
        types,
        [_extend(each) for each in file.extends],
        [_service(each) for each in file.services],
    )
    return head + "".join("\n" + "".join(part) for part in parts if part)


def _block(head: str, parts: Iterable[Sequence[str]]) -> str:
    """Each part starts with a line break, so that an empty line separates parts."""
    return f"{head} {{" + "".join("\n" + _indented("".join(part)) for part in parts if part) + "}\n"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def _option(option: Option) -> str:
    return f"option {option.name} = {option.text};\n"


def _inline(options: Sequence[Option]) -> str:
    if not options:
        return ""
    if len(options) == 1:
        return f" [{options[0].name} = {options[0].text}]"
    return " [\n" + ",\n".join(f"  {each.name} = {each.text}".replace("\n", "\n  ") for each in options) + "\n]"


def _message(message: Message) -> str:
    one_ofs = [_block(f"oneof {each.name}", [[_field(field) for field in each.fields]]) for each in message.one_ofs]
    return _block(
        f"message {message.name}",
        (
            [f"reserved {each};\n" for each in message.reserved],
            [_option(each) for each in message.options],
            [_field(each) for each in message.fields],
            one_ofs,
            [f"extensions {each};\n" for each in message.extensions],
            [_extend(each) for each in message.extends],
            [*map(_message, message.messages), *map(_enum, message.enums)],
        ),
    )


def _field(field: Field) -> str:
    label = f"{field.label} " if field.label else ""
    special = ("default", "json_name")
    options = [each for each in field.options if each.name not in special]
    options += [each for name in special for each in field.options if each.name == name]
    return f"{label}{field.type} {field.name} = {field.number}{_inline(options)};\n"


def _enum(enum: Enum) -> str:
    values = [f"{each.name} = {each.number}{_inline(each.options)};\n" for each in enum.values]
    reserved = [f"reserved {each};\n" for each in enum.reserved]
    return _block(f"enum {enum.name}", [[*reserved, *map(_option, enum.options), *values]])


def _extend(extend: Extend) -> str:
    return _block(f"extend {extend.type}", [[_field(each) for each in extend.fields]])


def _service(service: Service) -> str:
    methods = []
    for each in service.methods:
        options = "".join(_indented(_option(option)) for option in each.options)
        body = f" {{\n{options}}}" if options else ""
        methods.append(f"rpc {each.name} ({each.input}) returns ({each.output}){body};\n")
    return _block(f"service {service.name}", ([_option(each) for each in service.options], methods))
