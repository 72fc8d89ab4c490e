"""Compares arrays: items at fixed positions, the items after them, `contains`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.json_schema.node import Node

if TYPE_CHECKING:
    from headrace.registry.core.json_schema.comparison import Comparison


def array_faults(walk: Comparison, old: Node, new: Node, path: str) -> Iterator[Incompatibility]:
    before, before_rest = _items(old)
    after, after_rest = _items(new)
    for index in range(max(len(before), len(after))):
        first = old.at(before[index]) if index < len(before) else before_rest
        second = new.at(after[index]) if index < len(after) else after_rest
        yield from walk.compare(first, second, f"{path}/items/{index}")
    yield from walk.compare(before_rest, after_rest, f"{path}/items")
    if "contains" in new.keywords:
        at = f"{path}/contains"
        if "contains" not in old.keywords:
            yield Incompatibility("CONTAINS_ADDED", at, f"at '{at}': `contains` was added", "remove `contains`")
        else:
            yield from walk.compare(old.below("contains"), new.below("contains"), at)


def _items(node: Node) -> tuple[list[JsonValue], Node]:
    """(schemas of the first items, schema of the rest). Drafts before 2020-12 write a list into `items`."""
    listed = node.keywords.get("prefixItems")
    if isinstance(listed, list):
        return listed, node.below("items") if "items" in node.keywords else node.below("unevaluatedItems")
    items = node.keywords.get("items")
    if isinstance(items, list):
        return items, node.below("additionalItems")
    return [], node.below("items") if "items" in node.keywords else node.below("unevaluatedItems")
