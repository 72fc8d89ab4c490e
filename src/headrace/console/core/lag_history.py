"""Lag of groups over a day, in slots of five minutes. Pure.

A slot is one document for all groups: `lag/PRINCIPAL/17` → {"at_s": …, "lags": {group: lag}}. The number of the slot
repeats every day, so compaction keeps one day. The principal is part of the key, because a user who may not see all
groups must not replace the numbers of one who may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.kernel.json_values import JsonObject, JsonValue

SLOT_S: Final = 300
DAY_S: Final = 86_400
# A record must stay below the largest size of a batch that brokers accept.
_MOST_GROUPS: Final = 15_000


def slot_of(now_s: float) -> int:
    return int(now_s) // SLOT_S


def slot_key(principal: str, slot: int) -> str:
    return f"lag/{principal}/{slot % (DAY_S // SLOT_S)}"


def slot_document(now_s: float, lags: Mapping[str, int]) -> JsonObject:
    """The largest lags if there are too many groups."""
    chosen = sorted(lags, key=lambda group: -lags[group])[:_MOST_GROUPS]
    found: JsonObject = {group: lags[group] for group in chosen}
    return {"at_s": round(now_s, 1), "lags": found}


def history(documents: Mapping[str, JsonObject], now_s: float) -> dict[str, list[tuple[float, int]]]:
    """Points of the last day by group, the oldest first."""
    found: dict[str, list[tuple[float, int]]] = {}
    slots = sorted((one for one in documents.values() if _is_slot(one)), key=lambda one: float(one["at_s"]))
    for one in slots:
        at_s = float(one["at_s"])
        if now_s - DAY_S < at_s <= now_s:
            for group, lag in one["lags"].items():
                if isinstance(lag, int):
                    found.setdefault(group, []).append((at_s, lag))
    return found


def _is_slot(document: Mapping[str, JsonValue]) -> bool:
    return isinstance(document.get("at_s"), int | float) and isinstance(document.get("lags"), dict)
