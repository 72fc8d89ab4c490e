"""JSON Schema compatibility: the rules one by one, and random schemas against the values that they accept."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.json_schema.parsed import ParsedJson
from tests.support.effort import rounds

CLOSED = {"type": "object", "additionalProperties": False}


def kinds(old: Any, new: Any, *, lenient: bool = False) -> set[str]:
    reader, writer = ParsedJson.parse(json.dumps(new), {}), ParsedJson.parse(json.dumps(old), {})
    return {each.kind for each in reader.incompatibilities(writer, lenient=lenient)}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


INT, STRING = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (INT, {"type": "number"}, set()),
        ({"type": "number"}, INT, {"TYPE_CHANGED"}),
        (INT, {"type": ["integer", "null"]}, set()),
        ({"type": ["integer", "null"]}, INT, {"TYPE_NARROWED"}),
        (STRING, INT, {"TYPE_CHANGED"}),
        (STRING, {}, set()),
        ({}, STRING, {"SCHEMA_ADDED"}),
        (STRING, {**STRING, "maxLength": 5}, {"MAX_LENGTH_ADDED"}),
        ({**STRING, "maxLength": 5}, {**STRING, "maxLength": 6}, set()),
        ({**STRING, "maxLength": 5}, {**STRING, "maxLength": 4}, {"MAX_LENGTH_DECREASED"}),
        ({**STRING, "minLength": 5}, {**STRING, "minLength": 6}, {"MIN_LENGTH_INCREASED"}),
        ({**STRING, "pattern": "a"}, STRING, set()),
        ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, {"PATTERN_CHANGED"}),
        ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}, set()),
        ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 3}, {"MULTIPLE_OF_CHANGED"}),
        ({**INT, "maximum": 9, "exclusiveMaximum": 9}, {**INT, "exclusiveMaximum": 10}, set()),
        ({"enum": [1, 2]}, {"enum": [1, 2, 3]}, set()),
        ({"enum": [1, 2]}, {"enum": [1]}, {"ENUM_ARRAY_NARROWED"}),
        ({"const": 1}, {"enum": [1, 2]}, set()),
        (of(a=INT), of(a=INT, b=STRING), {"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"}),
        (of(a=INT), of(a=INT, b={}), set()),
        (of(a=INT, b=INT), of(a=INT), set()),
        ({**of(a=INT), **CLOSED}, {**of(a=INT, b=STRING), **CLOSED}, set()),
        ({**of(a=INT, b=INT), **CLOSED}, {**of(a=INT), **CLOSED}, {"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"}),
        ({**of(a=INT), **CLOSED}, {**of(a=INT, b=INT), **CLOSED, "required": ["b"]}, {"REQUIRED_PROPERTY_ADDED"}),
        (
            {**of(a=INT), **CLOSED},
            {**of(a=INT, b={**INT, "default": 0}), **CLOSED, "required": ["b"]},
            set(),
        ),
        (of(a=INT), {**of(a=INT), "required": ["a"]}, {"REQUIRED_ATTRIBUTE_ADDED"}),
        ({**of(a=INT), "required": ["a"]}, of(a=INT), set()),
        (of(a=INT), {**of(a=INT), **CLOSED}, {"ADDITIONAL_PROPERTIES_REMOVED"}),
        ({**of(a=INT), **CLOSED}, of(a=INT), set()),
        ({**of(), "additionalProperties": INT}, {**of(b=INT), "additionalProperties": INT}, set()),
        (
            {**of(), "additionalProperties": INT},
            {**of(b=STRING), "additionalProperties": INT},
            {"PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"},
        ),
        ({"oneOf": [INT, STRING]}, {"oneOf": [INT, STRING, {"type": "null"}]}, set()),
        ({"oneOf": [INT, STRING]}, {"oneOf": [INT]}, {"TYPE_CHANGED"}),
        ({"oneOf": [INT, STRING]}, {"oneOf": [INT, {"type": "null"}]}, {"SUM_TYPE_NARROWED"}),
        (INT, {"oneOf": [INT, STRING]}, set()),
        ({"anyOf": [INT]}, INT, set()),
        ({"allOf": [of(a=INT), of(b=INT)]}, of(a=INT), set()),
        ({"not": INT}, {"not": {"type": "number"}}, {"NOT_TYPE_EXTENDED"}),
        ({"not": {"type": "number"}}, {"not": INT}, set()),
        ({"type": "array", "items": INT}, {"type": "array", "items": STRING}, {"TYPE_CHANGED"}),
        ({"type": "array", "items": INT}, {"type": "array", "items": {"type": "number"}}, set()),
        ({"type": "array", "items": [INT]}, {"type": "array", "prefixItems": [INT]}, set()),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}, {"DEPENDENCY_ARRAY_EXTENDED"}),
        (
            {"$ref": "#/definitions/n", "definitions": {"n": of(next={"$ref": "#/definitions/n"})}},
            {"$ref": "#/$defs/m", "$defs": {"m": of(next={"$ref": "#/$defs/m"})}},
            set(),
        ),
    ],
)
def test_a_change_is_judged_by_its_rule(old: Any, new: Any, refused: set[str]) -> None:
    assert kinds(old, new) == refused


def test_lenient_accepts_properties_added_to_an_open_model_and_closing_it() -> None:
    assert kinds(of(a=INT), of(a=INT, b=STRING), lenient=True) == set()
    assert kinds(of(a=INT), {**of(a=INT), **CLOSED}, lenient=True) == set()
    assert kinds(of(a=INT), of(a=STRING), lenient=True) == {"TYPE_CHANGED"}


def test_references_between_schemas_are_followed() -> None:
    order = json.dumps(of(item={"$ref": "item.json"}))
    old = ParsedJson.parse(order, {"item.json": json.dumps(INT)})
    new = ParsedJson.parse(order, {"item.json": json.dumps(STRING)})
    assert [each.path for each in new.incompatibilities(old, lenient=False)] == ["#/properties/item/type"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "int"}', "#/type"),
        ('{"properties": []}', "#/properties"),
        ('{"$ref": "#/nowhere"}', "leads nowhere"),
        ('{"$ref": "http://localhost:1/a.json"}', "leads nowhere"),
        ('{"type":', "column"),
        ("[1]", "is an object"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidSchema, match=said.replace("$", r"\$").replace("[", r"\[")):
        ParsedJson.parse(text, {})


class Schemas:
    """Random schemas over a small set of values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self, depth: int = 0) -> Any:
        kind = self.random.choice(("integer", "number", "string", "object", "object", "array", "enum", "union", "any"))
        if depth > 2 and kind in ("object", "array", "union"):
            kind = "integer"
        made: dict[str, Any] = getattr(self, f"_{kind}")(depth)
        return made

    def _integer(self, _: int) -> Any:
        return self._maybe({"type": "integer"}, maximum=(1, 3), minimum=(0, 1), multipleOf=(1, 2))

    def _number(self, _: int) -> Any:
        return self._maybe({"type": "number"}, exclusiveMaximum=(1, 3), minimum=(0, 1))

    def _string(self, _: int) -> Any:
        return self._maybe({"type": "string"}, maxLength=(0, 2), minLength=(0, 1))

    def _maybe(self, made: dict[str, Any], **limits: tuple[int, int]) -> dict[str, Any]:
        return made | {name: self.random.choice(of) for name, of in limits.items() if self.random.random() < 0.3}

    def _object(self, depth: int) -> Any:
        names = self.random.sample(("a", "b"), self.random.randint(0, 2))
        made: dict[str, Any] = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        if self.random.random() < 0.4:
            made["required"] = [self.random.choice(("a", "b"))]
        if self.random.random() < 0.6:
            made["additionalProperties"] = self.random.choice((False, False, True, {"type": "integer"}))
        return made

    def _array(self, depth: int) -> Any:
        return self._maybe({"type": "array", "items": self.schema(depth + 1)}, maxItems=(0, 1), minItems=(0, 1))

    def _enum(self, _: int) -> Any:
        return {"enum": self.random.sample((0, 1, 2, "x", "xy", None), self.random.randint(1, 4))}

    def _union(self, depth: int) -> Any:
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.random.randint(1, 3))]}

    def _any(self, _: int) -> Any:
        return self.random.choice(({}, {"type": ["integer", "null"]}, {"type": "boolean"}))

    def changed(self, schema: Any) -> Any:
        made = json.loads(json.dumps(schema))
        if not made or self.random.random() < 0.3:
            return self.schema(1)
        if isinstance(made.get("properties"), dict) and self.random.random() < 0.7:
            made["properties"][self.random.choice(("a", "b"))] = self.schema(2)
        elif self.random.random() < 0.6:
            made.pop(self.random.choice(list(made)))
        else:
            made |= self._maybe({}, maximum=(1, 3), maxLength=(1, 2), maxItems=(1, 2))
        return made


LEAVES = (0, 1, 2, 3, 1.5, "", "x", "xy", "xyz", None, True)
VALUES: list[Any] = [
    *LEAVES,
    *([each] for each in LEAVES),
    [],
    [0, 1],
    {},
    *({"a": each} for each in LEAVES),
    *({"b": each, "c": 1} for each in LEAVES),
    *({"a": first, "b": second} for first in LEAVES[:6] for second in LEAVES[3:8]),
    *({"a": {"a": each}} for each in LEAVES),
    *({"c": each} for each in ("x", 1)),
]


def test_compatible_new_schema_accepts_all_values_of_the_old_one() -> None:
    """Checks "compatible" with data. "Incompatible" only has to occur for most schemas that really accept less."""
    made = Schemas(seed=5)
    compatible = narrowed = 0
    for _ in range(rounds(short=500, long=30_000)):
        old = made.schema()
        new = made.changed(old)
        accepted = [v for v in VALUES if jsonschema.Draft202012Validator(old).is_valid(v)]
        lost = [v for v in accepted if not jsonschema.Draft202012Validator(new).is_valid(v)]
        found = kinds(old, new)
        assert found or not lost, (old, new, lost[:3])
        compatible += not found
        narrowed += bool(lost)
    assert compatible > 50
    assert narrowed > 50
