"""Patterns in comparisons of JSON Schemas: they end at once, and an unknown verdict counts as incompatible."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.registry.core.json_schema.parsed import ParsedJson
from headrace.serialization import json_validation
from tests.support.clock import Stopwatch

SLOW = "^(a+)+$"
NAME = "a" * 40 + "!"


def kinds(old: Any, new: Any) -> set[str]:
    reader, writer = ParsedJson.parse(json.dumps(new), {}), ParsedJson.parse(json.dumps(old), {})
    return {each.kind for each in reader.incompatibilities(writer, lenient=False)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"properties": {NAME: {"type": "string"}}}, {"patternProperties": {SLOW: {"type": "string"}}}),
        ({"patternProperties": {SLOW: {"type": "string"}}}, {"properties": {NAME: {"type": "string"}}}),
        ({"enum": [NAME]}, {"pattern": SLOW}),
        ({"enum": [{NAME: 1}]}, {"patternProperties": {SLOW: False}}),
        ({"enum": [{NAME: 1}]}, {"patternProperties": {SLOW: {}}, "additionalProperties": False}),
        ({"enum": [{NAME: 1}]}, {"not": {"patternProperties": {SLOW: {}}, "unevaluatedProperties": False}}),
        ({"enum": [NAME]}, {"if": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": SLOW}}),
    ],
)
def test_a_comparison_ends(old: Any, new: Any) -> None:
    watch = Stopwatch()
    kinds(old, new)
    watch.at_most(60, because="a backtracking matcher takes days for forty letters")


def test_a_pattern_covers_a_removed_property() -> None:
    closed = {"additionalProperties": False}
    old = {"properties": {"a1": {"type": "string"}}, **closed}
    assert kinds(old, {"patternProperties": {"^a\\d$": {"type": "string"}}, **closed}) == set()
    assert kinds(old, {"patternProperties": {"^b": {"type": "string"}}, **closed}) == {
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    }


@pytest.mark.parametrize("pattern", ["^(?=a)", r"^(a)\1?", "^a{1,2000}"])
def test_a_pattern_that_cannot_be_matched_is_accepted_and_may_or_may_not_cover(pattern: str) -> None:
    closed = {"additionalProperties": False}
    old = {"properties": {"a1": {"type": "string"}}, **closed}
    assert kinds(old, {"patternProperties": {pattern: {"type": "string"}}, **closed}) == {
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    }
    string = {"additionalProperties": {"type": "string"}}
    assert kinds(old, {"patternProperties": {pattern: {"type": "string"}}, **string}) == set()
    assert kinds({"enum": ["a"]}, {"pattern": pattern}) == {"TYPE_CHANGED"}


def test_definitions_that_each_name_the_next_one_twice() -> None:
    def chain(last: str) -> dict[str, Any]:
        links = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(40)}
        return {"definitions": {**links, "d40": {"type": last}}, "$ref": "#/definitions/d0"}

    watch = Stopwatch()
    assert kinds(chain("integer"), chain("number")) == set()
    assert kinds(chain("number"), chain("integer")) == {"TYPE_CHANGED"}
    watch.at_most(60, because="each definition is looked at once, and not 2**40 times")


def test_a_value_that_takes_too_many_steps_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_validation, "MOST_STEPS", 2_000)
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    new = {"$defs": {**links, "d40": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    watch = Stopwatch()
    assert kinds({"enum": [{"a": 1}, {"a": 2}]}, new) == {"TYPE_CHANGED"}
    assert kinds({"enum": [{"a": 1}]}, {"properties": {"a": {"type": "integer"}}}) == set()
    watch.at_most(60, because="the values share a budget, and do not visit 2**40 schemas")


@pytest.mark.parametrize("new", [{"enum": [1]}, {"not": {"type": "string"}}, {"type": "integer", "anyOf": [{}, {}]}])
def test_unions_that_lead_to_the_next_one_in_two_ways(new: Any) -> None:
    def link(n: int) -> dict[str, Any]:
        following = {"$ref": f"#/definitions/d{n + 1}"}
        return {"anyOf": [following, {"allOf": [following]}]}

    links = {f"d{n}": link(n) for n in range(40)}
    old = {"definitions": {**links, "d40": {"type": "number"}}, "$ref": "#/definitions/d0"}
    watch = Stopwatch()
    assert kinds(old, new)
    watch.at_most(60, because="each definition is compared with the new schema once, and not 2**40 times")


def test_a_schema_that_names_itself() -> None:
    itself = {"allOf": [{"$ref": "#"}, {"type": "integer"}]}
    assert kinds({"type": "integer"}, itself) == set()
    assert kinds({"type": "string"}, itself) == {"TYPE_CHANGED"}
