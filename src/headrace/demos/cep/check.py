"""Suspicious pairs of payments without Spark, and the picture."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from headrace.demos.picture import Feed, Figures, Picture
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, kept

TITLE = "A pattern over events: a card in two countries at once."
OUTPUTS = {"card-alerts": kept(7, 3)}
_WITHIN_MS: Final = 1000


def expected(inputs: Contents) -> Result:
    by_card = defaultdict(list)
    for row in inputs.rows("card-payments"):
        by_card[row["card"]].append(row)
    return {
        f"{one['payment']}|{two['payment']}": [card, one["country"], two["country"]]
        for card, payments in by_card.items()
        for one in payments
        for two in payments
        if one["country"] != two["country"] and 0 < two["at"] - one["at"] <= _WITHIN_MS
    }


def found(outputs: Contents) -> Result:
    return {
        f"{row['payment']}|{row['payment2']}": [row["card"], row["country"], row["country2"]]
        for row in outputs.rows("card-alerts")
    }


def picture(found: Result, rows: int) -> Picture:
    alerts = list(found.items())[-rows:]
    lines = [f"{card}: {one} → {two}  ({pair.replace('|', ' → ')})" for pair, (card, one, two) in reversed(alerts)]
    cards = len({card for card, *_ in found.values()})
    return panels(Figures("", {"alerts": len(found), "cards": cards}), Feed("latest alerts", lines))
