"""SQL over topics: an editor, the rows, and a chart of rows that have numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.console.cluster.sql import MOST_ROWS, Rows
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.json_values import JsonValue

_BARS: Final = 30
_LONGEST: Final = 20_000
# Topics whose names the editor completes.
_COMPLETED: Final = 500


async def sql(visit: Visit) -> View:
    statement = visit.query.get("q", "").strip()[:_LONGEST]
    settings = visit.settings
    facts = await visit.cluster.facts()
    hidden = ""
    if settings.hides_values or settings.masks:
        hidden = "This console hides or masks values, and SQL would show them. It is off."
    found = None
    if statement and not hidden:
        brokers = visit.cluster.address.brokers
        found = await visit.sql.run(brokers.bootstrap, visit.cluster.client.security, statement)
    topics = [name for name, topic in facts.topics.items() if not topic.internal]
    data = {
        "statement": statement, "hidden": hidden, "found": found, "most": MOST_ROWS,
        "bars": None if found is None else bars(found), "topics": topics[:12], "known": topics[:_COMPLETED],
        "example": _example(topics[0] if topics else "orders"),
    }  # fmt: skip
    return View("sql.html", "SQL", data, 422 if found is not None and found.error else 200, "sql")


def _example(topic: str) -> str:
    name = topic.replace('"', '""')
    return (
        f'SELECT "partition", count(*) AS records, max("timestamp") AS newest\nFROM "{name}"\nGROUP BY ALL ORDER BY ALL'
    )


def bars(found: Rows) -> Mapping[str, object] | None:
    """The first column of numbers that is no key, by the first column; None if there is nothing to compare."""
    numbers = [at for at, is_number in enumerate(found.is_number) if is_number and at > 0]
    if not numbers or not 2 <= len(found.rows) <= _BARS:
        return None
    values = [_amount(row[numbers[0]]) for row in found.rows]
    largest = max(values)
    if largest <= 0 or min(values) < 0:
        return None
    names = [str(row[0])[:40] for row in found.rows]
    return {
        "label": found.columns[numbers[0]], "by": found.columns[0],
        "rows": [
            {"name": name, "value": row[numbers[0]], "width": round(100 * value / largest, 1)}
            for name, row, value in zip(names, found.rows, values, strict=True)
        ],
    }  # fmt: skip


def _amount(value: JsonValue) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
