"""Parses the text of a .proto file to a tree. proto-schema-parser reads the syntax; this module adds the missing
checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from antlr4.error.ErrorListener import ErrorListener
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.protobuf.file import (
    Enum,
    EnumValue,
    Extend,
    Field,
    Message,
    Method,
    OneOf,
    Option,
    ProtoFile,
    Service,
)

_LARGEST_NUMBER: Final = 2**29 - 1
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class _Errors(ErrorListener):  # type: ignore[misc]
    """Stops at the first syntax error."""

    def syntaxError(self, _: JsonValue, __: JsonValue, line: int, column: int, message: str, ___: JsonValue) -> None:  # noqa: N802
        raise InvalidSchema(f"Invalid Protobuf schema at line {line}, column {column + 1}: {message}")


def _strict(recognizer: JsonValue) -> None:
    recognizer.removeErrorListeners()
    recognizer.addErrorListener(_Errors())


def parse_proto(text: str) -> ProtoFile:
    """Raises InvalidSchema with line and column."""
    try:
        parsed = Parser(setup_lexer=_strict, setup_parser=_strict).parse(text)
    except InvalidSchema:
        raise
    except RecursionError as fault:
        raise InvalidSchema("Invalid Protobuf schema: its messages are nested too deeply") from fault
    except (ValueError, TypeError, AttributeError) as fault:
        raise InvalidSchema(f"Invalid Protobuf schema: {fault}") from fault
    elements = parsed.file_elements
    packages = [each.name for each in elements if isinstance(each, ast.Package)]
    imports = [each for each in elements if isinstance(each, ast.Import)]
    if parsed.syntax not in (None, "proto2", "proto3"):
        raise InvalidSchema(f'Invalid Protobuf schema: syntax "{parsed.syntax}" is neither "proto2" nor "proto3"')
    return ProtoFile(
        parsed.syntax,
        packages[0] if packages else "",
        tuple(each.name for each in imports if not each.public),
        tuple(each.name for each in imports if each.public),
        _options(elements),
        tuple(_message(each) for each in elements if isinstance(each, ast.Message)),
        tuple(_enum(each) for each in elements if isinstance(each, ast.Enum)),
        tuple(_extend(each) for each in elements if isinstance(each, ast.Extension)),
        tuple(_service(each) for each in elements if isinstance(each, ast.Service)),
    )


def _options(elements: Iterable[JsonValue]) -> tuple[Option, ...]:
    return tuple(Option(each.name, _value(each.value)) for each in elements if isinstance(each, ast.Option))


def _value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(each, each) for each in value) + '"'
    if isinstance(value, ast.Identifier):
        return str(value.name)
    if isinstance(value, ast.MessageLiteral):
        lines = [f"{each.name}: {_value(each.value)}" for each in value.elements if hasattr(each, "value")]
        inner = ",\n".join("  " + line.replace("\n", "\n  ") for line in lines)
        return f"{{\n{inner}\n}}"
    if isinstance(value, list):
        return "[\n" + ",\n".join("  " + _value(each) for each in value) + "\n]"
    return str(value)


def _message(node: JsonValue) -> Message:
    elements = node.elements
    groups = [each.name for each in elements if isinstance(each, ast.Group)]
    if groups:
        raise InvalidSchema(
            f"Invalid Protobuf schema: group '{groups[0]}' in message {node.name}: use a nested message"
        )
    made = Message(
        node.name,
        tuple(_field(each) for each in elements if isinstance(each, ast.Field | ast.MapField)),
        tuple(_one_of(each) for each in elements if isinstance(each, ast.OneOf)),
        tuple(_message(each) for each in elements if isinstance(each, ast.Message)),
        tuple(_enum(each) for each in elements if isinstance(each, ast.Enum)),
        _options(elements),
        tuple(_reserved(each) for each in elements if isinstance(each, ast.Reserved)),
        tuple(", ".join(each.ranges) for each in elements if isinstance(each, ast.ExtensionRange)),
        tuple(_extend(each) for each in elements if isinstance(each, ast.Extension)),
    )
    _check_fields(made)
    return made


def _check_fields(message: Message) -> None:
    numbers: dict[int, str] = {}
    names: set[str] = set()
    for field in message.all_fields():
        place = f"Invalid Protobuf schema: field '{field.name}' of message {message.name}"
        if not 1 <= field.number <= _LARGEST_NUMBER or 19_000 <= field.number <= 19_999:
            raise InvalidSchema(
                f"{place} has the number {field.number}: must be 1 to 536870911, and not 19000 to 19999"
            )
        if field.number in numbers:
            raise InvalidSchema(f"{place} has the number {field.number} of field '{numbers[field.number]}'")
        if field.name in names:
            raise InvalidSchema(f"{place} is there twice")
        numbers[field.number] = field.name
        names.add(field.name)


def _field(node: JsonValue) -> Field:
    if isinstance(node, ast.MapField):
        return Field(node.name, node.number, f"map<{node.key_type}, {node.value_type}>", None, _options(node.options))
    label = node.cardinality.value.lower() if node.cardinality is not None else None
    return Field(node.name, node.number, node.type, label, _options(node.options))


def _one_of(node: JsonValue) -> OneOf:
    return OneOf(node.name, tuple(_field(each) for each in node.elements if isinstance(each, ast.Field)))


def _enum(node: JsonValue) -> Enum:
    values = tuple(
        EnumValue(each.name, each.number, _options(each.options))
        for each in node.elements
        if isinstance(each, ast.EnumValue)
    )
    if not values:
        raise InvalidSchema(f"Invalid Protobuf schema: enum {node.name} has no values")
    reserved = tuple(_reserved(each) for each in node.elements if isinstance(each, ast.EnumReserved))
    return Enum(node.name, values, _options(node.elements), reserved)


def _reserved(node: JsonValue) -> str:
    return ", ".join([*node.ranges, *(f'"{name}"' for name in node.names)])


def _extend(node: JsonValue) -> Extend:
    return Extend(node.typeName, tuple(_field(each) for each in node.elements if isinstance(each, ast.Field)))


def _service(node: JsonValue) -> Service:
    methods = tuple(
        Method(each.name, _method_type(each.input_type), _method_type(each.output_type), _options(each.elements))
        for each in node.elements
        if isinstance(each, ast.Method)
    )
    return Service(node.name, methods, _options(node.elements))


def _method_type(node: JsonValue) -> str:
    return f"stream {node.type}" if node.stream else str(node.type)
