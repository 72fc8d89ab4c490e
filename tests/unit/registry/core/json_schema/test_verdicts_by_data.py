"""JSON Schema verdicts against data: random values of the old schema are validated by the new one.

If the verdict is "compatible", every value of the old schema is valid. If it is not, some value is not valid, with the
limits that `CAUTIOUS` names: Confluent's rules compare schemas part by part, and so refuse some that accept all values.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import jsonschema

from tests.support.effort import rounds
from tests.unit.registry.core.json_schema.test_comparison import Schemas, kinds

# A union is compared branch by branch, so a value may move to a branch that the rules do not pair. A property that was
# required without a schema of its own counts as a new one.
CAUTIOUS = {
    "SUM_TYPE_NARROWED",
    "REQUIRED_PROPERTY_ADDED",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}
NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 0.5, 1.5)
TEXTS = ("", "x", "xy", "xyz", "xyzz")
SIMPLE = (*NUMBERS, *TEXTS, None, True)
MOST = 60


def candidates(schema: Any, chance: random.Random, depth: int = 0) -> list[Any]:
    """Values near the limits of a schema; not all of them are valid."""
    if not isinstance(schema, dict) or depth > 4:
        return list(SIMPLE)
    found: list[Any] = [*schema.get("enum", ())]
    for branch in schema.get("anyOf", ()):
        found += candidates(branch, chance, depth + 1)
    type_ = schema.get("type")
    if type_ == "array":
        items = candidates(schema.get("items", {}), chance, depth + 1)
        found += [[], *([each] for each in items), *([each, each] for each in items), [items[0]] * 3]
    elif type_ == "object":
        found += _objects(schema, chance, depth)
    elif not found:
        found = [*SIMPLE, [], [1, 2], {}, {"a": 1}, {"b": "x"}]
    return found if len(found) <= MOST else chance.sample(found, MOST)


def _objects(schema: dict[str, Any], chance: random.Random, depth: int) -> list[Any]:
    inner = {name: candidates(each, chance, depth + 1) for name, each in schema["properties"].items()}
    for name in ("a", "b", "c"):
        inner.setdefault(name, [1, "x", None, [], {}])
    found: list[Any] = []
    for size in range(4):
        for names in itertools.combinations("abc", size):
            for _ in range(12 if size else 1):
                found.append({name: chance.choice(inner[name]) for name in names})
    return found


def test_verdicts_are_those_of_the_data() -> None:
    made, chance = Schemas(seed=21), random.Random(21)
    verdicts = {True: 0, False: 0}
    unproven = 0
    for _ in range(rounds(short=250, long=10_000)):
        old = made.schema()
        new = made.changed(old)
        reads, writes = (jsonschema.Draft202012Validator(each) for each in (new, old))
        values = (each for _ in range(4) for each in candidates(old, chance))
        lost = [each for each in values if writes.is_valid(each) and not reads.is_valid(each)]
        found = kinds(old, new)
        assert found or not lost, (old, new, lost[0])
        verdicts[not found] += 1
        unproven += bool(found) and not lost and not found & CAUTIOUS
    assert min(verdicts.values()) > 20
    # Schemas that accept no value at all, and values that the search does not meet.
    assert unproven <= verdicts[False] // 20, (unproven, verdicts)
