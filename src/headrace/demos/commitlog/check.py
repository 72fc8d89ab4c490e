"""The state of every service equals the sum of all requests."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted

TITLE = "In-memory services that restore their state from a log."
# As many partitions as the requests: what a service owns of the requests is what it owns of the log.
OUTPUTS = {"stock": compacted(4), "stock-copies": compacted()}


def expected(inputs: Contents) -> Result:
    stock: Counter[str] = Counter()
    for row in inputs.rows("stock-requests"):
        stock[row["article"]] += row["change"]
    result: Result = {f"log|{article}": number for article, number in stock.items()}
    return result | {f"{name}|{article}": number for name in "abc" for article, number in stock.items()}


def found(outputs: Contents) -> Result:
    result: Result = {f"log|{article}": each["stock"] for article, each in outputs.latest("stock").items()}
    for name, each in outputs.latest("stock-copies").items():
        result |= {f"{name}|{article}": number for article, number in each["copy"].items()}
    return result


def picture(found: Result, rows: int) -> Picture:
    articles = sorted({key.split("|")[1] for key in found}, key=lambda name: -found.get(f"log|{name}", 0))
    table = [[article, *(found.get(f"{name}|{article}") for name in ("log", "a", "b", "c"))] for article in articles]
    behind = sum(1 for row in table for cell in row[2:] if cell != row[1])
    return panels(
        Figures("", {"articles": len(articles), "values that services still have to learn": behind}),
        Table("stock: the log, and the memory of each service", ("article", "log", "a", "b", "c"), table[:rows]),
    )
