"""Edge cases of client quotas: entities, keys and values that contradict each other or are invalid."""

from __future__ import annotations

from tests.differential.table import Body, Variant

RATE = "producer_byte_rate"
U = ("user", "u")


def quotas(entity: list[tuple[str, str]], *ops: tuple[str, float, bool]) -> Body:
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    changed = [{"key": key, "value": value, "remove": remove} for key, value, remove in ops]
    return {"entries": [{"entity": parts, "ops": changed}] if entity else [], "validate_only": True}


def components(*filters: tuple[str, int, str | None], strict: bool = False) -> Body:
    rows = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in filters]
    return {"components": rows, "strict": strict}


VARIANTS = [
    *[Variant(name, 49, v, body) for v in (0, 1) for name, body in {
        "none": quotas([]),
        "no-change": quotas([U]),
        "doubled-key": quotas([U], (RATE, 1.0, False), (RATE, 2.0, False)),
        "doubled-entity": {**quotas([U]), "entries": quotas([U], (RATE, 1.0, False))["entries"] * 2},
        "doubled-type": quotas([U, ("user", "v")], (RATE, 1.0, False)),
        "user-and-address": quotas([U, ("ip", "127.0.0.1")], (RATE, 1.0, False)),
        "bytes-of-an-address": quotas([("ip", "127.0.0.1")], (RATE, 1.0, False)),
        "connections-of-an-address": quotas([("ip", "127.0.0.1")], ("connection_creation_rate", 9.0, False)),
        "no-address": quotas([("ip", "not an address")], ("connection_creation_rate", 9.0, False)),
        "connections-of-a-user": quotas([U], ("connection_creation_rate", 9.0, False)),
        "nameless": quotas([("user", "")], (RATE, 1.0, False)),
        "typeless": quotas([("", "x")], (RATE, 1.0, False)),
        "fraction": quotas([U], (RATE, 1.5, False)),
        "zero": quotas([U], (RATE, 0.0, False)),
        "infinite": quotas([U], (RATE, float("inf"), False)),
        "far-too-large": quotas([U], (RATE, 1e300, False)),
        "half-a-percent": quotas([U], ("request_percentage", 0.5, False)),
        "half-a-change": quotas([U], ("controller_mutation_rate", 0.5, False)),
        "remove-unknown": quotas([U], ("no_such", 0.0, True)),
        "remove-unset": quotas([U], (RATE, 0.0, True)),
    }.items()],
    *[Variant(name, 48, v, body) for v in (0, 1) for name, body in {
        "strict": components(("user", 2, None), strict=True),
        "both": components(("user", 2, None), ("client-id", 2, None)),
        "doubled": components(("user", 2, None), ("user", 2, None)),
        "typeless": components(("", 2, None)),
        "exactly-null": components(("user", 0, None)),
        "default-by-name": components(("user", 1, "x")),
        "any-by-name": components(("user", 2, "x")),
        "user-and-address": components(("user", 2, None), ("ip", 2, None)),
        "exactly-empty": components(("user", 0, "")),
    }.items()],
]  # fmt: skip
