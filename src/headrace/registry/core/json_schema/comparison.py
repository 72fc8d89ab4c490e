"""Whether the new schema accepts all values that the old schema accepts.

The comparison follows Confluent's rules by keyword. Where those rules look only at the form of a schema, it looks at
the accepted values: a union with one branch equals this branch, and any part of a combination that accepts as much
matches an old part. Schemas that are already being compared count as compatible, so that recursive schemas end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import referencing
import referencing.exceptions
from jsonschema import Draft202012Validator

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.json_schema.node import Node
from headrace.serialization.json_validation import TooManySteps, validator_of
from headrace.serialization.patterns import UnsupportedPattern

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


class Comparison:
    def __init__(self, *, lenient: bool) -> None:
        self.lenient = lenient
        # The values keep the schemas alive, because the keys contain their ids, which are unique only while they live.
        self._known: dict[tuple[int, int], tuple[JsonValue, JsonValue, list[Incompatibility]]] = {}
        self._parts: dict[int, tuple[JsonValue, list[Node]]] = {}

    def compare(self, original: Node, update: Node, path: str = "#") -> list[Incompatibility]:
        original, update = original.resolved(), update.resolved()
        if original.schema == update.schema and original.resolver is update.resolver:
            return []
        pair = (id(original.schema), id(update.schema))
        if pair in self._known:
            return self._known[pair][2]
        self._known[pair] = (original.schema, update.schema, [])
        # Without duplicates: two ways to the same faults would double them at each level.
        found = list(dict.fromkeys(self._compare(original, update, path)))
        self._known[pair] = (original.schema, update.schema, found)
        return found

    def accepts(self, original: Node, update: Node, path: str) -> bool:
        return not self.compare(original, update, path)

    def _compare(self, original: Node, update: Node, path: str) -> Iterator[Incompatibility]:
        if update.accepts_all or original.accepts_none:
            return
        if update.accepts_none:
            yield fault("SCHEMA_ADDED", path, "the new schema accepts nothing", "remove the schema `false`")
            return
        if original.accepts_all:
            yield fault(
                "SCHEMA_ADDED", path, "the old schema accepts any value, the new one does not", "keep it unrestricted"
            )
            return
        olds, news = self._parts_of(original), self._parts_of(update)
        sums = [each for each in olds if _branches(each)]
        for new in news:
            if any(old.schema == new.schema and old.resolver is new.resolver for old in olds):
                continue
            if new.accepts_none:
                yield from self._part(olds[0], new, path)
                continue
            # Two unions are compared as a whole. Otherwise the comparison goes branch by branch.
            candidates = [*sums, *(old for old in olds if not _branches(old))] if _branches(new) else olds
            attempts = [list(self._part(old, new, path)) for old in candidates]
            if all(attempts):
                yield from _nearest(candidates, attempts, new)

    def _parts_of(self, node: Node) -> list[Node]:
        """The same nodes each time. A part may be a new object, and `_known` would not know its next copy: definitions
        that lead to the next one in two ways would take exponential time."""
        known = self._parts.get(id(node.schema))
        if known is None:
            known = self._parts[id(node.schema)] = (node.schema, node.parts())
        return known[1]

    def _part(self, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
        """Compares two simple schemas."""
        if new.accepts_all or old.accepts_none:
            return
        if _branches(old):
            yield from self._from_union(old, new, path)
        elif _branches(new):
            if not any(self.accepts(old, new.at(branch), path) for branch in _branches(new)):
                yield fault(
                    "SUM_TYPE_NARROWED", path, "no branch of the new union accepts what the old schema accepted",
                    "add a branch with the old schema",
                )  # fmt: skip
        elif "not" in new.keywords:
            yield from self._not(old, new, path)
        elif "not" in old.keywords:
            yield fault(
                "TYPE_NARROWED", path, "the old schema accepted everything but `not`, the new one is narrower",
                "keep the `not` alone",
            )  # fmt: skip
        elif _values(new) is not None or _values(old) is not None:
            yield from self._enum(old, new, path)
        else:
            yield from self._keywords(old, new, path)

    def _from_union(self, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
        if _branches(new):
            if not self._all_matched(old, new, path):
                yield fault(
                    "SUM_TYPE_NARROWED", path, "a branch of the old union has no branch in the new one that accepts it",
                    "keep every branch of the union",
                )  # fmt: skip
            return
        for index, branch in enumerate(_branches(old)):
            yield from self.compare(old.at(branch), new, f"{path}/{index}")

    def _all_matched(self, old: Node, new: Node, path: str) -> bool:
        """Each old branch needs a new branch that accepts it; with `oneOf` a different one each (bipartite
        matching)."""
        olds = [old.at(each) for each in _branches(old)]
        news = [new.at(each) for each in _branches(new)]
        fits = [
            [j for j, update in enumerate(news) if self.accepts(each, update, f"{path}/{i}")]
            for i, each in enumerate(olds)
        ]
        if "oneOf" not in new.keywords:
            return all(fits)
        taken: dict[int, int] = {}

        def place(i: int, seen: set[int]) -> bool:
            for j in fits[i]:
                if j not in seen:
                    seen.add(j)
                    if j not in taken or place(taken[j], seen):
                        taken[j] = i
                        return True
            return False

        return all(place(i, set()) for i in range(len(olds)))

    def _not(self, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
        below = new.at(new.keywords["not"])
        if "not" in old.keywords:
            if not self.accepts(below, old.at(old.keywords["not"]), f"{path}/not"):
                yield fault("NOT_TYPE_EXTENDED", f"{path}/not", "`not` now refuses more values", "narrow `not` only")
        else:
            yield fault("NOT_TYPE_EXTENDED", f"{path}/not", "`not` was added", "remove `not`, or keep the old schema")

    def _enum(self, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
        olds, news = _values(old), _values(new)
        if news is None:
            assert olds is not None
            if not all(_accepts_value(value, new) for value in olds):
                yield fault("TYPE_CHANGED", path, "an old enum value is refused", "keep the old values")
        elif olds is None:
            yield fault("ENUM_ARRAY_NARROWED", f"{path}/enum", "`enum` was added", "remove `enum`, or keep the type")
        else:
            missing = [value for value in olds if value not in news]
            if missing:
                yield fault(
                    "ENUM_ARRAY_NARROWED", f"{path}/enum", f"the values {missing} are no longer allowed",
                    "keep every old value in `enum`",
                )  # fmt: skip

    def _keywords(self, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
        from headrace.registry.core.json_schema.arrays import array_faults
        from headrace.registry.core.json_schema.bounds import bound_faults
        from headrace.registry.core.json_schema.objects import object_faults

        before, after = types_of(old), types_of(new)
        lost = [each for each in before if each not in after and not (each == "integer" and "number" in after)]
        if lost:
            kind = "TYPE_NARROWED" if set(before) & set(after) or "type" not in old.keywords else "TYPE_CHANGED"
            yield fault(
                kind, f"{path}/type", f"type {_listed(old)} became {_listed(new)}, without {', '.join(lost)}",
                f"allow {', '.join(lost)} too",
            )  # fmt: skip
            return
        yield from bound_faults(old, new, before, path)
        if "object" in before:
            yield from object_faults(self, old, new, path)
        if "array" in before:
            yield from array_faults(self, old, new, path)


def fault(kind: str, path: str, reason: str, way_out: str) -> Incompatibility:
    return Incompatibility(kind, path, f"at '{path}': {reason}", way_out)


def types_of(node: Node) -> tuple[str, ...]:
    given = node.keywords.get("type")
    if given is None:
        return _TYPES
    return (given,) if isinstance(given, str) else tuple(given)


def _listed(node: Node) -> str:
    return "any" if "type" not in node.keywords else "|".join(types_of(node))


def _branches(node: Node) -> list[JsonValue]:
    found = node.keywords.get("anyOf") or node.keywords.get("oneOf")
    return found if isinstance(found, list) else []


def _values(node: Node) -> list[JsonValue] | None:
    if "const" in node.keywords:
        return [node.keywords["const"]]
    found = node.keywords.get("enum")
    return found if isinstance(found, list) else None


def _accepts_value(value: JsonValue, node: Node) -> bool:
    """A value counts as rejected if its schema cannot be resolved here, has a pattern that cannot be matched, or takes
    too many steps."""
    try:
        validator = validator_of(dict(node.keywords), referencing.Registry(), Draft202012Validator)
        return bool(validator.is_valid(value))
    except (referencing.exceptions.Unresolvable, UnsupportedPattern, TooManySteps, RecursionError):
        return False


def _nearest(olds: list[Node], attempts: list[list[Incompatibility]], new: Node) -> list[Incompatibility]:
    """The old part with the most keywords in common, which gives the best explanation."""
    scored = sorted(
        zip(olds, attempts, strict=True), key=lambda each: -len(each[0].keywords.keys() & new.keywords.keys())
    )
    return scored[0][1]
