"""Compares limits: a new schema may loosen or remove a limit, but not tighten or add one."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.json_schema.node import Node

_UPPER: Final = {
    "maxLength": "string",
    "maximum": "number",
    "exclusiveMaximum": "number",
    "maxProperties": "object",
    "maxItems": "array",
    "maxContains": "array",
}
_LOWER: Final = {
    "minLength": "string",
    "minimum": "number",
    "exclusiveMinimum": "number",
    "minProperties": "object",
    "minItems": "array",
    "minContains": "array",
}
# A lower limit of zero has no effect.
_COUNTS: Final = ("minLength", "minProperties", "minItems", "minContains")


def bound_faults(old: Node, new: Node, types: tuple[str, ...], path: str) -> Iterator[Incompatibility]:
    before, after = _limits(old), _limits(new)
    for name, kind in (*_UPPER.items(), *_LOWER.items()):
        if _applies(kind, types) and name in after:
            yield from _limit(name, before.get(name), after[name], upper=name in _UPPER, path=path)
    if _applies("string", types):
        yield from _pattern(old, new, path)
    if _applies("number", types):
        yield from _multiple(old, new, path)
    if _applies("array", types) and new.keywords.get("uniqueItems") and not old.keywords.get("uniqueItems"):
        yield _fault("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "`uniqueItems` was added", "remove `uniqueItems`")


def _applies(kind: str, types: tuple[str, ...]) -> bool:
    return kind in types or (kind == "number" and "integer" in types)


def _limits(node: Node) -> dict[str, JsonValue]:
    """Draft 4 writes an exclusive limit as a limit and a flag."""
    found = {name: node.keywords[name] for name in (*_UPPER, *_LOWER) if name in node.keywords}
    for plain, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        flag = found.get(exclusive)
        if isinstance(flag, bool):
            del found[exclusive]
            if flag and plain in found:
                found[exclusive] = found.pop(plain)
    return found


def _limit(name: str, before: JsonValue, after: JsonValue, *, upper: bool, path: str) -> Iterator[Incompatibility]:
    word = _snake(name)
    if before is None:
        if name not in _COUNTS or after > 0:
            yield _fault(f"{word}_ADDED", f"{path}/{name}", f"`{name}: {after}` was added", f"remove `{name}`")
    elif after < before if upper else after > before:
        change = "DECREASED" if upper else "INCREASED"
        yield _fault(
            f"{word}_{change}",
            f"{path}/{name}",
            f"`{name}` changed from {before} to {after}",
            f"keep `{name}: {before}`",
        )


def _pattern(old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = old.keywords.get("pattern"), new.keywords.get("pattern")
    if after is not None and after != before:
        change = "ADDED" if before is None else "CHANGED"
        yield _fault(f"PATTERN_{change}", f"{path}/pattern", f"`pattern` is now {after!r}", "keep or remove `pattern`")


def _multiple(old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = old.keywords.get("multipleOf"), new.keywords.get("multipleOf")
    if after is None or before == after:
        return
    if before is None:
        yield _fault("MULTIPLE_OF_ADDED", f"{path}/multipleOf", "`multipleOf` was added", "remove `multipleOf`")
    elif Fraction(str(before)) % Fraction(str(after)) != 0:
        yield _fault(
            "MULTIPLE_OF_CHANGED", f"{path}/multipleOf", f"{before} is not a multiple of {after}",
            f"use {before} or a divisor of it",
        )  # fmt: skip


def _snake(name: str) -> str:
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in name)


def _fault(kind: str, path: str, reason: str, way_out: str) -> Incompatibility:
    return Incompatibility(kind, path, f"at '{path}': {reason}", way_out)
