"""Rows measured in turns, medians and ratios: a table for people, JSON for programs."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One measurement. `asked` is the goal for the ratio Headrace / Apache Kafka, in the direction of
    `higher_is_better`.
    """

    name: str
    unit: str
    asked: float | None = None
    higher_is_better: bool = True
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, server: str, value: float) -> None:
        self.samples.setdefault(server, []).append(value)

    def median(self, server: str) -> float | None:
        values = self.samples.get(server)
        return statistics.median(values) if values else None

    @property
    def ratio(self) -> float | None:
        ours, theirs = self.median("headrace"), self.median("apache kafka")
        return ours / theirs if ours is not None and theirs else None

    @property
    def met(self) -> bool | None:
        if self.asked is None or self.ratio is None:
            return None
        return self.ratio >= self.asked if self.higher_is_better else self.ratio <= self.asked


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(title: str, rows: list[Row], *, file: Path | None = None) -> None:
    table = Table(title=title)
    for heading in ("row", "unit", "Apache Kafka", "Headrace", "ratio", "asked", "met"):
        table.add_column(heading, justify="left" if heading in ("row", "unit") else "right")
    for row in rows:
        sign = "≥" if row.higher_is_better else "≤"
        asked = f"{sign} {row.asked:g}" if row.asked is not None else "–"
        met = {True: "yes", False: "NO", None: "–"}[row.met]
        theirs, ours = _number(row.median("apache kafka")), _number(row.median("headrace"))
        table.add_row(row.name, row.unit, theirs, ours, _number(row.ratio), asked, met)
    Console(width=130).print(table)
    document = {"title": title, "rows": [asdict(row) | {"ratio": row.ratio, "met": row.met} for row in rows]}
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2) + "\n")
        print(f"JSON: {file}")
