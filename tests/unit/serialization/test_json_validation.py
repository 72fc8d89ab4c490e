"""Values of JSON Schemas: patterns end at once, and the verdicts equal those of `jsonschema`."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import referencing
from jsonschema.validators import validator_for

from headrace.serialization import json_validation
from headrace.serialization.errors import SerializationError
from headrace.serialization.json_schema import JsonCodec
from headrace.serialization.json_validation import validator_of
from headrace.serialization.patterns import UnsupportedPattern, matches, matches_any
from headrace.serialization.schema import RegisteredSchema
from tests.support.clock import Stopwatch
from tests.support.effort import rounds

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    DRAFT_7,
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
SLOW = "^(a+)+$"
TEXT = "a" * 40 + "!"


def codec(schema: Any, **options: bool) -> JsonCodec:
    return JsonCodec(RegisteredSchema(1, None, "s", 1, "JSON", json.dumps(schema)), None, **options)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("any_pattern", [False, True])
def test_a_value_is_checked_at_once(draft: str, any_pattern: bool) -> None:
    watch = Stopwatch()
    nested = {"$schema": DRAFT_7, "pattern": SLOW}
    for schema, value in (
        ({"pattern": SLOW}, TEXT),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {TEXT: 1}),
        ({"properties": {"a": {"pattern": SLOW}}}, {"a": TEXT}),
        ({"properties": {"a": nested}}, {"a": TEXT}),
        ({"properties": {"a": {"properties": {"b": {"allOf": [nested]}}}}}, {"a": {"b": TEXT}}),
    ):
        with pytest.raises(SerializationError):
            codec({"$schema": draft, **schema}, any_pattern=any_pattern).encode(value)
    if "/draft/" in draft:
        schema = {"patternProperties": {SLOW: {}}, "unevaluatedProperties": False}
        for each in (schema, {"$defs": {"a": schema}, "$ref": "#/$defs/a", "unevaluatedProperties": False}):
            with pytest.raises(SerializationError, match="Unevaluated properties"):
                codec({"$schema": draft, **each}, any_pattern=any_pattern).encode({TEXT: 1})
    watch.at_most(60, because="a backtracking matcher takes days for forty letters")


@pytest.mark.parametrize("pattern", ["^(?=a)a", r"^(a)\1?$", "^a{1,2000}$"])
def test_a_service_refuses_a_value_whose_pattern_it_cannot_match(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        matches(pattern, "a")
    assert matches_any(pattern, "a")
    with pytest.raises(SerializationError, match="cannot be matched in linear time"):
        codec({"pattern": pattern}).encode("a")
    own = codec({"pattern": pattern}, any_pattern=True)
    assert own.encode("a") == b'"a"'
    with pytest.raises(SerializationError, match="does not match"):
        own.encode("b")


def test_definitions_that_each_name_the_next_one_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_validation, "MOST_STEPS", 2_000)
    links = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"definitions": {**links, "d40": {"type": "integer"}}, "$ref": "#/definitions/d0"}
    watch = Stopwatch()
    for value in (1, "a"):
        with pytest.raises(SerializationError, match="takes more than 2,000 steps"):
            codec(schema).encode(value)
    watch.at_most(60, because="a value has a budget, and does not visit 2**40 schemas")
    numbers = codec({"items": {"type": "integer"}})
    for _ in range(2):
        assert numbers.encode([1] * 1_500), "each value has a budget of its own"
    assert codec({"items": {"type": "integer"}}, any_pattern=True).encode([1] * 3_000), "a user's own process has none"


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_references_to_anchors_do_not_search_the_schema_for_each_value(keyword: str) -> None:
    anchor = "$anchor" if keyword == "$ref" else "$dynamicAnchor"
    named = {f"d{n}": {anchor: f"a{n}"} for n in range(2_000)}
    schema = {"$schema": DRAFTS[-1], "$defs": named, "items": {keyword: "#a1"}}
    watch = Stopwatch()
    codec(schema).encode([1] * 2_000)
    watch.at_most(60, because="the anchors are found once, and not for each of 2,000 values")


@pytest.mark.parametrize("inner", [None, "a", {"$id": 5}, {"$id": "http://["}, {"properties": []}, {"items": "a"}])
def test_a_value_can_be_read_by_a_schema_that_is_none_in_some_place(inner: Any) -> None:
    """Other registries may have taken it."""
    assert codec({"properties": {"a": inner}}).decode(b"1") == 1


def test_patterns_follow_ecma_262() -> None:
    assert matches(r"^[\u4e00-\u9fa5]+$", "漢字")
    assert matches(r"^\p{L}{1,30}$", "Åsa")
    assert not matches(r"^\d$", "٣")
    assert not matches("^a$", "a\n")
    assert matches("^.$", "\ud800"), "a lone surrogate, which JSON allows"
    assert not matches("a", "\ud800")


def some_schema(choice: random.Random, depth: int = 0) -> Any:
    if depth > 2 or choice.random() < 0.3:
        return choice.choice([True, False, {}, {"type": "integer"}, {"pattern": "^a"}, {"type": "string"}])
    made: dict[str, Any] = {}
    for keyword in choice.sample(
        ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf",
         "if", "then", "else", "dependentSchemas", "$ref", "not", "propertyNames"],
        choice.randint(1, 4),
    ):  # fmt: skip
        below = [some_schema(choice, depth + 1) for _ in range(2)]
        if keyword in ("allOf", "anyOf", "oneOf"):
            made[keyword] = below
        elif keyword in ("properties", "dependentSchemas"):
            made[keyword] = dict(zip("ab", below, strict=True))
        elif keyword == "patternProperties":
            made[keyword] = dict(zip(("^a", "b$"), below, strict=True))
        else:
            made[keyword] = "#/$defs/known" if keyword == "$ref" else below[0]
    return made


def test_verdicts_equal_those_of_jsonschema() -> None:
    choice = random.Random(7)
    known = {"properties": {"a": {"type": "integer"}}, "patternProperties": {"c": {}}}
    verdicts = set()
    for _ in range(rounds(short=300, long=20_000)):
        schema = some_schema(choice)
        if not isinstance(schema, dict):
            continue
        schema = {"$schema": DRAFTS[-1], "$defs": {"known": known}, **schema}
        ours = validator_of(schema, referencing.Registry())
        theirs = validator_for(schema)(schema, registry=referencing.Registry())
        for _ in range(8):
            names = choice.sample(["a", "b", "ab", "ba", "c", "abc"], choice.randint(0, 4))
            value: Any = {name: choice.choice([1, "a", "b", {}, {"a": 1}]) for name in names}
            verdict = theirs.is_valid(value)
            assert ours.is_valid(value) == verdict, (schema, value)
            verdicts.add(verdict)
    assert verdicts == {True, False}


def test_unevaluated_properties_follow_recursive_references() -> None:
    schema = {
        "$schema": DRAFTS[3],
        "$recursiveAnchor": True,
        "properties": {"name": {"type": "string"}, "child": {"$recursiveRef": "#"}},
        "unevaluatedProperties": False,
    }
    codec(schema).encode({"name": "a", "child": {"name": "b"}})
    with pytest.raises(SerializationError, match="Unevaluated properties are not allowed"):
        codec(schema).encode({"name": "a", "child": {"nam": "b"}})
