"""Suspicious pairs of payments without Spark, and the picture."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rich.table import Table

from headrace.demos.topics import Contents, Result

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "A pattern over events: a card in two countries at once."
OUTPUTS = {"card-alerts": {"retention.ms": "604800000"}}
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


def picture(found: Result, rows: int) -> RenderableType:
    table = Table(title=f"{len(found):,} alerts", title_justify="left")
    for name in ("card", "from", "to", "payments"):
        table.add_column(name)
    for payments, (card, one, two) in list(found.items())[-rows:]:
        table.add_row(card, one, two, payments.replace("|", " → "))
    return table
