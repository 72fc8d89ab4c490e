"""Validators of `jsonschema` that fetch nothing, match patterns in linear time and end.

Without a registry, `jsonschema` fetches references to other hosts. It matches patterns with `re` in four keywords,
which are replaced here. A subschema may name another draft (`$schema`), and then `jsonschema` continues with the
validator of that draft. So `evolve` is replaced, too.

Definitions that each name the next one twice take exponential time for their number, and as many errors. So a service
counts the subschemas that it applies (`limited_steps`), and refuses a value that needs too many.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import referencing
import referencing.jsonschema
from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend, validator_for

from headrace.serialization.patterns import matches, matches_any

Matches = Callable[[str, str], bool]
Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors]
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# About two seconds of one processor. An array of numbers takes a step for each.
MOST_STEPS: Final = 200_000


class TooManySteps(Exception):
    def __init__(self) -> None:
        super().__init__(
            f"the value takes more than {MOST_STEPS:,} steps: use fewer references that lead to the same definition, "
            "or write the record with a client that does not use the HTTP services"
        )


class _Account(threading.local):
    steps_left: float = math.inf


_account = _Account()


@contextmanager
def limited_steps() -> Iterator[None]:
    """Validators in this block and thread raise TooManySteps after MOST_STEPS together, unless they have
    `any_pattern`."""
    _account.steps_left = MOST_STEPS
    try:
        yield
    finally:
        _account.steps_left = math.inf


def validator_of(
    document: Any,
    registry: referencing.Registry[Any],
    default: type[Any] = Draft7Validator,
    *,
    any_pattern: bool = False,
) -> Any:
    """A validator of the draft that the document names. `registry` has all documents that it may refer to. With
    `any_pattern` Python's `re` matches what RE2 cannot, and steps are not limited: only in a process of the schema's
    user. Without it the validator raises UnsupportedPattern and TooManySteps."""
    draft = _linear(validator_for(document, default=default), any_pattern)
    validator = draft(document, registry=registry)
    # A reference to an anchor or an `$id` makes the library search all documents for them, each time anew.
    with suppress(Exception):  # a schema that is none in some place, for example null: only a reference there needs it
        resolver = validator._resolver
        searched = resolver._registry.crawl().resolver(resolver._base_uri)
        return draft(document, registry=registry, _resolver=searched)
    return validator


@lru_cache
def _linear(draft: type[Any], any_pattern: bool) -> type[Any]:
    """The validator class of a draft with other keywords for patterns."""
    find = matches_any if any_pattern else matches
    keywords: dict[str, Keyword] = {"pattern": _pattern(find), "patternProperties": _pattern_properties(find)}
    keywords["additionalProperties"] = _additional_properties(draft.VALIDATORS["additionalProperties"], find)
    if "unevaluatedProperties" in draft.VALIDATORS:
        keywords["unevaluatedProperties"] = _unevaluated_properties(find)
    made: Any = extend(draft, keywords)
    evolve = made.evolve

    def evolve_linear(self: Any, **changes: Any) -> Any:
        if not any_pattern:
            _account.steps_left -= 1
            if _account.steps_left < 0:
                raise TooManySteps
        found = evolve(self, **changes)
        if type(found) is made:
            return found
        other: Any = type(found)
        return _linear(other, any_pattern)(
            found.schema, format_checker=found.format_checker, registry=found._registry, _resolver=found._resolver
        )

    made.evolve = evolve_linear
    found: type[Any] = made
    return found


def _pattern(find: Matches) -> Keyword:
    def pattern(validator: Any, wanted: Any, instance: Any, _: Any) -> Errors:
        if validator.is_type(instance, "string") and not find(wanted, instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    return pattern


def _pattern_properties(find: Matches) -> Keyword:
    def pattern_properties(validator: Any, patterns: Any, instance: Any, _: Any) -> Errors:
        if validator.is_type(instance, "object"):
            for pattern, schema in patterns.items():
                for name, value in instance.items():
                    if find(pattern, name):
                        yield from validator.descend(value, schema, path=name, schema_path=pattern)

    return pattern_properties


def _additional_properties(original: Keyword, find: Matches) -> Keyword:
    """The original keyword gets an object and a schema without what the patterns cover."""

    def additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Errors:
        patterns = schema.get("patternProperties")
        if patterns and validator.is_type(instance, "object"):
            instance = {
                name: value for name, value in instance.items() if not any(find(each, name) for each in patterns)
            }
            schema = {name: value for name, value in schema.items() if name != "patternProperties"}
        yield from original(validator, allowed, instance, schema)

    return additional_properties


def _unevaluated_properties(find: Matches) -> Keyword:
    def unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Errors:
        if not validator.is_type(instance, "object"):
            return
        evaluated = _evaluated(validator, instance, schema, find)
        refused = [
            name
            for name, value in instance.items()
            if name not in evaluated and any(True for _ in validator.descend(value, allowed, path=name))
        ]
        if refused:
            listed = ", ".join(map(repr, refused))
            yield ValidationError(f"Unevaluated properties are not allowed ({listed})")

    return unevaluated_properties


def _evaluated(validator: Any, instance: Any, schema: Any, find: Matches) -> set[str]:
    """The properties that a schema and its subschemas for the same object evaluate."""
    if not isinstance(schema, dict):
        return set()
    found = {name for name in schema.get("properties", ()) if name in instance}
    for pattern in schema.get("patternProperties", ()):
        found |= {name for name in instance if find(pattern, name)}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            rest = validator.evolve(schema=schema[keyword])
            found |= {name for name, value in instance.items() if rest.is_valid(value)}
    for inner in _referenced(validator, schema):
        found |= _evaluated(inner, instance, inner.schema, find)
    for below in _applied(validator, instance, schema):
        found |= _evaluated(validator, instance, below, find)
    return found


def _referenced(validator: Any, schema: Any) -> Iterator[Any]:
    for keyword in _REFERENCES:
        if keyword in schema and keyword in validator.VALIDATORS:
            resolver = validator._resolver
            is_recursive = keyword == "$recursiveRef"
            target = (
                referencing.jsonschema.lookup_recursive_ref(resolver)
                if is_recursive
                else resolver.lookup(schema[keyword])
            )
            yield validator.evolve(schema=target.contents, _resolver=target.resolver)


def _applied(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The subschemas that the object fulfils, or must fulfil."""

    def is_valid(below: Any) -> bool:
        return bool(validator.evolve(schema=below).is_valid(instance))

    for name, below in schema.get("dependentSchemas", {}).items():
        if name in instance:
            yield below
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from filter(is_valid, schema.get(keyword, ()))
    if "if" in schema:
        holds = is_valid(schema["if"])
        if holds:
            yield schema["if"]
        yield schema.get("then" if holds else "else", True)
