"""Fields for a record schema: a sensible field for each type of Avro and JSON Schema.

A plan can describe single fields better, for instance as references or skewed keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.datagen.errors import BadPlan
from headrace.datagen.fields import Field, field_from

_AVRO: Final[dict[str, dict[str, Any]]] = {
    "null": {"constant": None},
    "boolean": {"boolean": 0.5},
    "int": {"integer": [0, 1_000_000]},
    "long": {"integer": [0, 1_000_000_000]},
    "float": {"number": {"between": [0, 1000], "decimals": 3}},
    "double": {"number": {"between": [0, 1000], "decimals": 3}},
    "string": {"words": [1, 4]},
    "timestamp-millis": {"time": "ms"},
    "uuid": {"uuid": {}},
}
_JSON: Final[dict[str, dict[str, Any]]] = {
    "null": {"constant": None},
    "boolean": {"boolean": 0.5},
    "number": {"number": {"between": [0, 1000], "decimals": 3}},
}
_JSON_TEXTS: Final[dict[str, dict[str, Any]]] = {"date-time": {"time": "iso"}, "uuid": {"uuid": {}}}


def fields_of_schema(place: str, text: str) -> dict[str, Field]:
    """The fields of an Avro record or of a JSON Schema object. Raises BadPlan."""
    try:
        schema = json.loads(text)
    except ValueError as fault:
        raise BadPlan(place, f"is not JSON: {fault}") from None
    if not isinstance(schema, Mapping):
        raise BadPlan(place, "must be an Avro record or a JSON Schema object")
    if schema.get("type") == "record":
        named: dict[str, Any] = {}
        return {
            each["name"]: field_from(f"{place}.{each['name']}", _avro(each["type"], place, named))
            for each in schema["fields"]
        }
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        return {
            name: field_from(f"{place}.{name}", _json(each, f"{place}.{name}")) for name, each in properties.items()
        }
    raise BadPlan(place, "must be an Avro record or a JSON Schema object")


def _avro(kind: Any, place: str, named: dict[str, Any]) -> dict[str, Any]:
    """The field of an Avro type, as a plan would describe it."""
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if not others:
            return {"constant": None}
        of = _avro(others[0], place, named)
        return {"optional": {"share": 0.8, "of": of}} if "null" in kind else of
    if isinstance(kind, Mapping):
        if kind.get("logicalType") in _AVRO:
            return _AVRO[kind["logicalType"]]
        found = _avro_complex(kind, place, named)
        if "name" in kind:
            named[kind["name"]] = found
        return found
    if kind in named:
        return named[kind]  # type: ignore[no-any-return]
    if kind in _AVRO:
        return _AVRO[kind]
    raise BadPlan(place, f"no values can be made for the Avro type {kind!r}; describe its field under value")


def _avro_complex(kind: Mapping[str, Any], place: str, named: dict[str, Any]) -> dict[str, Any]:
    match kind.get("type"):
        case "record":
            return {
                "object": {
                    each["name"]: _avro(each["type"], f"{place}.{each['name']}", named) for each in kind["fields"]
                }
            }
        case "enum":
            return {"choice": list(kind["symbols"])}
        case "array":
            return {"list": {"of": _avro(kind["items"], place, named), "between": [0, 3]}}
        case other:
            return _avro(other, place, named)


def _json(schema: Any, place: str) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise BadPlan(place, "no values can be made for this schema; describe the field under value")
    if "const" in schema:
        return {"constant": schema["const"]}
    if schema.get("enum"):
        return {"choice": list(schema["enum"])}
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        of = _json({**schema, "type": others[0]}, place) if others else {"constant": None}
        return {"optional": {"share": 0.8, "of": of}} if "null" in kind and others else of
    match kind:
        case "string":
            return _JSON_TEXTS.get(str(schema.get("format")), {"words": [1, 4]})
        case "integer":
            low = int(schema.get("minimum", 0))
            return {"integer": [low, int(schema.get("maximum", low + 1_000_000))]}
        case "number":
            low = schema.get("minimum", 0)
            return {"number": {"between": [low, schema.get("maximum", low + 1000)], "decimals": 3}}
        case "array":
            return {"list": {"of": _json(schema.get("items", {"type": "integer"}), place), "between": [0, 3]}}
        case "object":
            properties = schema.get("properties") or {}
            if properties:
                return {"object": {name: _json(each, f"{place}.{name}") for name, each in properties.items()}}
    if kind in _JSON:
        return _JSON[kind]
    raise BadPlan(place, f"no values can be made for the type {kind!r}; describe the field under value")
