"""One invoice for every acknowledged order, none lost and none twice."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Feed, Figures, Picture
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, kept

TITLE = "A service and a broker are killed; nothing is lost."
INPUTS = {"acknowledged": kept(7)}
OUTPUTS = {"invoices": kept(7, 3)}


def expected(inputs: Contents) -> Result:
    """The brokers acknowledged so many orders; their numbers have no gaps. Each must be in the topic, once."""
    cents = {row["order"]: row["cents"] for row in inputs.rows("orders")}
    (number,) = {row["orders"] for row in inputs.rows("acknowledged")}
    names = [f"order-{n}" for n in range(1, number + 1)]
    result: Result = {name: [1, round(cents[name] * 1.19)] if name in cents else "lost" for name in names}
    return {**result, "orders in the topic": len(inputs.records["orders"]), "orders acknowledged": number}


def found(outputs: Contents) -> Result:
    rows = list(outputs.rows("invoices"))
    times = Counter(row["order"] for row in rows)
    result: Result = {row["order"]: [times[row["order"]], row["cents"]] for row in rows}
    return {**result, "orders in the topic": len(rows), "orders acknowledged": len(times)}


def picture(found: Result, rows: int) -> Picture:
    invoices = [(name, value) for name, value in found.items() if name.startswith("order-")]
    twice = sum(1 for _, (times, _) in invoices if times > 1)
    latest = [f"{name}: {cents / 100:.2f}" for name, (_, cents) in invoices[-rows:][::-1]]
    return panels(Figures("", {"invoices": len(invoices), "invoices written twice": twice}), Feed("latest", latest))
