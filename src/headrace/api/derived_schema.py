"""The Avro or JSON schema of a record type, derived from its annotations."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import typing
from typing import Final

from headrace.api.errors import NoSchema
from headrace.api.value_types import NO_DEFAULT, fields_of, is_record_type, optional_of

AvroType = str | dict[str, object] | list[object]
_SCALARS: Final[dict[object, str]] = {str: "string", bool: "boolean", int: "long", float: "double", bytes: "bytes"}
_LOGICAL: Final[dict[object, tuple[str, str]]] = {
    datetime.datetime: ("long", "timestamp-micros"),
    datetime.date: ("int", "date"),
}


_JSON_SCALARS: Final[dict[object, dict[str, object]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    decimal.Decimal: {"type": "string"},
}


def json_schema(hint: type) -> str:
    """Raises NoSchema, which names the field. The schema is closed: with `additionalProperties` open, a registry would
    refuse every new field as incompatible with what older writers may have put there."""
    definitions: dict[str, object] = {}
    root = _json_record(hint, hint.__name__, definitions)
    more = {"$defs": definitions} if definitions else {}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": hint.__name__, **root, **more})


def _json_record(hint: type, where: str, definitions: dict[str, object]) -> dict[str, object]:
    properties: dict[str, object] = {}
    required = []
    for field in fields_of(hint):
        described = _json_type(field.hint, f"{where}.{field.name}", definitions)
        if field.default is not NO_DEFAULT:
            described = {**described, "default": field.default}
        elif optional_of(field.hint) is None:
            required.append(field.name)
        properties[field.name] = described
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _json_type(hint: object, where: str, definitions: dict[str, object]) -> dict[str, object]:
    if hint in _JSON_SCALARS:
        return _JSON_SCALARS[hint]
    inner = optional_of(hint)
    if inner is not None:
        return {"oneOf": [{"type": "null"}, _json_type(inner, where, definitions)]}
    if is_record_type(hint):
        assert isinstance(hint, type)
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # a type may have itself as a field
            definitions[hint.__name__] = _json_record(hint, where, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [one.value for one in hint]}
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (list, tuple) and arguments:
        return {"type": "array", "items": _json_type(arguments[0], where, definitions)}
    if typing.get_origin(hint) is dict and len(arguments) == 2 and arguments[0] is str:
        return {"type": "object", "additionalProperties": _json_type(arguments[1], where, definitions)}
    raise NoSchema(
        f"{where}: {getattr(hint, '__name__', hint)} has no JSON schema; use str, int, float, bool, date, datetime, "
        "Decimal, an Enum, another record type, list[…], dict[str, …] or … | None"
    )


def avro_schema(hint: type) -> str:
    """Raises NoSchema, which names the field."""
    return json.dumps(_record(hint, hint.__name__, set()))


def _record(hint: type, where: str, named: set[str]) -> AvroType:
    if hint.__name__ in named:
        return hint.__name__
    named.add(hint.__name__)
    fields: list[object] = []
    for field in fields_of(hint):
        described: dict[str, object] = {
            "name": field.name,
            "type": _type(field.hint, f"{where}.{field.name}", named),
        }
        if field.default is not NO_DEFAULT:
            described["default"] = field.default
        elif optional_of(field.hint) is not None:
            described["default"] = None
        if described.get("default") is not None and optional_of(field.hint) is not None:
            del described["default"]  # the default of an Avro union belongs to its first type, which is null
        fields.append(described)
    return {"type": "record", "name": hint.__name__, "fields": fields}


def _type(hint: object, where: str, named: set[str]) -> AvroType:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint in _LOGICAL:
        base, logical = _LOGICAL[hint]
        return {"type": base, "logicalType": logical}
    inner = optional_of(hint)
    if inner is not None:
        return ["null", _type(inner, where, named)]
    if is_record_type(hint):
        assert isinstance(hint, type)
        return _record(hint, where, named)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint, where, named)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (list, tuple) and arguments:
        return {"type": "array", "items": _type(arguments[0], where, named)}
    if typing.get_origin(hint) is dict and len(arguments) == 2 and arguments[0] is str:
        return {"type": "map", "values": _type(arguments[1], where, named)}
    raise NoSchema(
        f"{where}: {getattr(hint, '__name__', hint)} has no Avro schema; use str, int, float, bool, bytes, date, "
        "datetime, an Enum of texts, another record type, list[…], dict[str, …] or … | None"
    )


def _enum(hint: type[enum.Enum], where: str, named: set[str]) -> AvroType:
    symbols = [one.value for one in hint]
    if not all(isinstance(symbol, str) and symbol.isidentifier() for symbol in symbols):
        raise NoSchema(f"{where}: the values of {hint.__name__} must be words, because they are the symbols of Avro")
    if hint.__name__ in named:
        return hint.__name__
    named.add(hint.__name__)
    return {"type": "enum", "name": hint.__name__, "symbols": symbols}
