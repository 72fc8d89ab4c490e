"""Compares objects: properties by content model, required properties, dependencies.

The content model decides about properties without a name in `properties`. *Open*: all are allowed (no
`additionalProperties`, or `true`). *Closed*: none is (`false`). *Partially open*: a schema or `patternProperties`
decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.json_schema.node import Node
from headrace.serialization.patterns import UnsupportedPattern, matches

if TYPE_CHECKING:
    from headrace.registry.core.json_schema.comparison import Comparison


def object_faults(walk: Comparison, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    yield from _properties(walk, old, new, path)
    yield from _required(old, new, path)
    yield from _dependencies(walk, old, new, path)
    yield from _rest(walk, old, new, path)
    before, after = old.below("propertyNames"), new.below("propertyNames")
    yield from walk.compare(before, after, f"{path}/propertyNames")


def _map(node: Node, name: str) -> dict[str, JsonValue]:
    found = node.keywords.get(name)
    return found if isinstance(found, dict) else {}


def _rest_of(node: Node) -> Node:
    """The schema of properties that match neither a name nor a pattern."""
    if "additionalProperties" in node.keywords:
        return node.below("additionalProperties").resolved()
    return node.below("unevaluatedProperties").resolved()


def _covering(node: Node, name: str) -> Iterator[Node]:
    """The schema that the content model applies to a property without a name in `properties`. If a pattern cannot be
    matched, every schema that may apply."""
    for pattern, schema in _map(node, "patternProperties").items():
        try:
            if matches(pattern, name):
                yield node.at(schema)
                return
        except UnsupportedPattern:
            yield node.at(schema)
    yield _rest_of(node)


def _first(faults: Iterable[Iterator[Incompatibility]]) -> list[Incompatibility]:
    """The first list that is not empty."""
    return next(filter(None, map(list, faults)), [])


def _properties(walk: Comparison, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = _map(old, "properties"), _map(new, "properties")
    required = set(new.keywords.get("required") or ()) if isinstance(new.keywords.get("required"), list) else set()
    for name, schema in before.items():
        at = f"{path}/properties/{name}"
        if name in after:
            yield from walk.compare(old.at(schema), new.at(after[name]), at)
        else:
            yield from _first(_removed(walk, old.at(schema), covering, name, at) for covering in _covering(new, name))
    for name, schema in after.items():
        if name not in before:
            at = f"{path}/properties/{name}"
            yield from _first(
                _added(walk, covering, new.at(schema), name, at, name in required) for covering in _covering(old, name)
            )


def _removed(walk: Comparison, schema: Node, covering: Node, name: str, at: str) -> Iterator[Incompatibility]:
    """`covering`: the new schema of the property."""
    if covering.accepts_all or schema.accepts_none or walk.lenient:
        return
    if covering.accepts_none:
        yield _fault(
            "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", at, f"property '{name}' was removed and is now refused",
            f"keep '{name}', or allow additional properties",
        )  # fmt: skip
    elif not walk.accepts(schema, covering, at):
        yield _fault(
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", at,
            f"property '{name}' was removed and its values do not match `additionalProperties` or `patternProperties`",
            f"keep '{name}', or widen `additionalProperties`",
        )  # fmt: skip


def _added(
    walk: Comparison, covering: Node, schema: Node, name: str, at: str, is_required: bool
) -> Iterator[Incompatibility]:
    """`covering`: the old schema of the property."""
    resolved = schema.resolved()
    has_default = schema.has_default or resolved.has_default
    if is_required and not has_default:
        yield _fault(
            "REQUIRED_PROPERTY_ADDED", at, f"the required property '{name}' was added",
            f"make '{name}' optional, or give it a default",
        )  # fmt: skip
    if covering.accepts_none or walk.lenient:
        return
    if covering.accepts_all:
        if not resolved.accepts_all:
            yield _fault(
                "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", at,
                f"property '{name}' was added, but old data may hold any value under that name",
                "close the first version (`additionalProperties: false`), use the policy LENIENT, or add it untyped",
            )  # fmt: skip
    elif not walk.accepts(covering, schema, at):
        yield _fault(
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", at,
            f"property '{name}' was added and refuses values that the old `additionalProperties` allowed",
            f"give '{name}' a schema that accepts them",
        )  # fmt: skip


def _required(old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = old.keywords.get("required"), new.keywords.get("required")
    if not isinstance(after, list):
        return
    known, named = _map(old, "properties"), _map(new, "properties")
    for name in after:
        if isinstance(before, list) and name in before:
            continue
        schema = new.at(named.get(name, True)).resolved()
        is_new = name in named and name not in known
        if not schema.has_default and not is_new:
            yield _fault(
                "REQUIRED_ATTRIBUTE_ADDED", f"{path}/required", f"property '{name}' became required",
                f"keep '{name}' optional, or give it a default",
            )  # fmt: skip


def _dependencies(walk: Comparison, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = _all_dependencies(old), _all_dependencies(new)
    for name, wanted in after.items():
        at = f"{path}/dependencies/{name}"
        known = before.get(name)
        if isinstance(wanted, list):
            extra = set(wanted) - set(known if isinstance(known, list) else ())
            if extra:
                listed = ", ".join(sorted(extra))
                yield _fault("DEPENDENCY_ARRAY_EXTENDED", at, f"'{name}' now needs {listed}", "remove the dependency")
        elif known is None:
            yield _fault("DEPENDENCY_SCHEMA_ADDED", at, f"a dependency of '{name}' was added", "remove the dependency")
        else:
            yield from walk.compare(old.at(True if isinstance(known, list) else known), new.at(wanted), at)


def _all_dependencies(node: Node) -> dict[str, JsonValue]:
    return {
        name: wanted
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas")
        for name, wanted in _map(node, keyword).items()
    }


def _rest(walk: Comparison, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, after = _rest_of(old), _rest_of(new)
    at = f"{path}/additionalProperties"
    if walk.lenient or after.accepts_all or before.accepts_none:
        pass
    elif after.accepts_none:
        yield _fault(
            "ADDITIONAL_PROPERTIES_REMOVED", at, "additional properties are no longer allowed",
            "keep them allowed, or use the policy LENIENT",
        )  # fmt: skip
    elif not walk.accepts(before, after, at):
        yield _fault(
            "ADDITIONAL_PROPERTIES_NARROWED", at, "additional properties are restricted more than before",
            "keep `additionalProperties` as it was",
        )  # fmt: skip
    patterns = _map(old, "patternProperties")
    for pattern, schema in _map(new, "patternProperties").items():
        known = old.at(patterns[pattern]) if pattern in patterns else before
        yield from walk.compare(known, new.at(schema), f"{path}/patternProperties/{pattern}")


def _fault(kind: str, path: str, reason: str, way_out: str) -> Incompatibility:
    return Incompatibility(kind, path, f"at '{path}': {reason}", way_out)
