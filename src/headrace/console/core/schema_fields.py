"""Fields of a form from a schema: Avro records and JSON Schema objects. Protobuf messages become the same fields in
`records.schema_form`.

Nested records become fields with a dotted name. What a single input cannot hold (arrays, maps, unions of several types)
is a field of JSON text. `filled` makes the value of a record from the texts of a form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject, JsonValue

TEXT, INTEGER, NUMBER, BOOLEAN, CHOICE, JSON = "text", "integer", "number", "boolean", "choice", "json"
_AVRO: Final = {
    "string": TEXT, "bytes": TEXT, "int": INTEGER, "long": INTEGER, "float": NUMBER, "double": NUMBER,
    "boolean": BOOLEAN,
}  # fmt: skip
_JSON: Final = {"string": TEXT, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}
_DEEPEST: Final = 4
_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class SchemaField:
    path: tuple[str, ...]
    kind: str
    is_optional: bool = False
    """An empty input is null, the default or no field, as the schema has it."""
    is_nullable: bool = False
    has_default: bool = False
    default: JsonValue = None
    choices: tuple[str, ...] = ()
    doc: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def hint(self) -> str:
        """What an empty input means."""
        if self.has_default and self.default is not None:
            return json.dumps(self.default, ensure_ascii=False) if self.kind != TEXT else str(self.default)
        return "null" if self.is_nullable else "left out" if self.is_optional else ""


class BadField(ValueError):
    """A text of the form that does not fit its field."""


def avro_fields(schema: JsonValue) -> list[SchemaField]:
    """Empty if the schema is no record."""
    found: list[SchemaField] = []
    if isinstance(schema, dict) and schema.get("type") == "record":
        _avro(schema, (), found, {}, 0)
    return found[:_MOST]


def _avro(record: JsonObject, path: tuple[str, ...], found: list[SchemaField], known: dict[str, JsonValue], depth: int
          ) -> None:  # fmt: skip
    known[str(record.get("name"))] = record
    for field in record.get("fields") or ():
        here = (*path, str(field.get("name")))
        kind, is_nullable = _one_of_union(field.get("type"))
        if isinstance(kind, str) and kind in known:
            kind = JSON if depth >= _DEEPEST else known[kind]
        has_default, default = "default" in field, field.get("default")
        doc = str(field.get("doc") or "")
        if isinstance(kind, dict) and kind.get("type") == "record" and not is_nullable and depth < _DEEPEST:
            # A record inside itself ends somewhere: with JSON text.
            _avro(kind, here, found, dict(known), depth + 1)
            continue
        plain, choices = _avro_kind(kind)
        if isinstance(kind, dict) and kind.get("name"):
            known[str(kind["name"])] = kind
        found.append(
            SchemaField(here, plain, is_nullable or has_default, is_nullable, has_default, default, choices, doc)
        )


def _one_of_union(kind: JsonValue) -> tuple[JsonValue, bool]:
    """The type of a union of one type and null, and whether null is allowed."""
    if not isinstance(kind, list):
        return kind, False
    others = [one for one in kind if one != "null"]
    return others[0] if len(others) == 1 else kind, "null" in kind


def _avro_kind(kind: JsonValue) -> tuple[str, tuple[str, ...]]:
    if isinstance(kind, dict) and kind.get("type") == "enum":
        return CHOICE, tuple(map(str, kind.get("symbols") or ()))
    if isinstance(kind, dict) and isinstance(kind.get("type"), str) and "logicalType" not in kind:
        kind = kind["type"]
    return (_AVRO.get(kind, JSON) if isinstance(kind, str) else JSON), ()


def json_fields(schema: JsonValue) -> list[SchemaField]:
    """Empty if the schema is no object with properties."""
    found: list[SchemaField] = []
    if isinstance(schema, dict):
        _json(schema, schema, (), found, 0)
    return found[:_MOST]


def _json(part: JsonObject, root: JsonObject, path: tuple[str, ...], found: list[SchemaField], depth: int) -> None:
    properties, required = part.get("properties"), part.get("required") or ()
    if not isinstance(properties, dict):
        return
    for name, given in properties.items():
        here, field = (*path, str(name)), _resolved(given, root)
        if isinstance(field.get("properties"), dict) and depth < _DEEPEST and name in required:
            _json(field, root, here, found, depth + 1)
            continue
        kinds = field.get("type")
        kind, is_nullable = _one_of_union(kinds)
        choices = tuple(map(str, field["enum"])) if _is_choice(field.get("enum")) else ()
        plain = CHOICE if choices else _JSON.get(kind, JSON) if isinstance(kind, str) else JSON
        doc = str(field.get("description") or field.get("title") or "")
        found.append(
            SchemaField(
                here, plain, name not in required or is_nullable, is_nullable and name in required,
                "default" in field, field.get("default"), choices, doc,
            )
        )  # fmt: skip


def _is_choice(values: JsonValue) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)


def _resolved(part: JsonValue, root: JsonObject) -> JsonObject:
    """Follows a reference within the schema."""
    found: JsonValue = part
    for _ in range(_DEEPEST):
        reference = found.get("$ref") if isinstance(found, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def filled(fields: list[SchemaField], texts: Mapping[str, str]) -> JsonObject:
    """The value of a record. Raises BadField with the name of the field."""
    value: dict[str, JsonValue] = {}
    for field in fields:
        text = texts.get(field.name, "")
        if not text and field.is_optional:
            if field.has_default:
                _put(value, field.path, field.default)
            elif field.is_nullable:
                _put(value, field.path, None)
            continue
        _put(value, field.path, _parsed(field, text))
    return value


def _put(value: dict[str, JsonValue], path: tuple[str, ...], found: JsonValue) -> None:
    for step in path[:-1]:
        inner = value.setdefault(step, {})
        assert isinstance(inner, dict)
        value = inner
    value[path[-1]] = found


def _parsed(field: SchemaField, text: str) -> JsonValue:
    try:
        if field.kind == INTEGER:
            return int(text)
        if field.kind == NUMBER:
            return float(text)
        if field.kind == JSON:
            found: JsonValue = json.loads(text)
            return found
    except ValueError:
        kinds = {INTEGER: "a whole number", NUMBER: "a number", JSON: 'JSON, such as [1, 2] or "text"'}
        raise BadField(f"{field.name} {text!r}: must be {kinds[field.kind]}") from None
    if field.kind == BOOLEAN:
        if text not in ("true", "false"):
            raise BadField(f"{field.name} {text!r}: must be true or false")
        return text == "true"
    if field.kind == CHOICE and text not in field.choices:
        raise BadField(f"{field.name} {text!r}: must be one of {', '.join(field.choices)}")
    return text


def texts_of(fields: list[SchemaField], value: JsonValue) -> dict[str, str]:
    """The inverse of `filled`: the texts of a form for a decoded record."""
    found = {}
    for field in fields:
        part: JsonValue = value
        for step in field.path:
            part = part.get(step) if isinstance(part, dict) else None
        if part is None:
            found[field.name] = ""
        elif field.kind in (TEXT, CHOICE) and isinstance(part, str):
            found[field.name] = part
        else:
            found[field.name] = json.dumps(part, ensure_ascii=False)
    return found
