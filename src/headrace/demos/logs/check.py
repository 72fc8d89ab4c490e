"""Standard log lines and their counts without Spark, and the picture."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table

from headrace.demos.topics import Contents, Result

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "Log lines of services in one format, counted by level."
OUTPUTS = {"logs": {"retention.ms": "604800000"}, "log-counts": {"cleanup.policy": "compact"}}


def expected(inputs: Contents) -> Result:
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for record in inputs.records["log-lines"]:
        service, line = (record.key or b"").decode(), (record.value or b"").decode()
        try:
            row = json.loads(line)
            level, message = row["level"], f"{row['code']} {row['text']}"
        except ValueError:
            level, message = "UNREADABLE", line
        lines[f"line|{service}|{level}|{message}"] += 1
        counts[f"{service}|{level}"] += 1
    return {**counts, **lines}


def found(outputs: Contents) -> Result:
    counts = {key: each["count"] for key, each in outputs.latest("log-counts").items()}
    lines = Counter(f"line|{row['service']}|{row['level']}|{row['message']}" for row in outputs.rows("logs"))
    return {**counts, **lines}


def picture(found: Result, rows: int) -> RenderableType:
    table = Table(title="log lines", title_justify="left")
    levels = ("INFO", "WARN", "ERROR", "UNREADABLE")
    table.add_column("service")
    for level in levels:
        table.add_column(level.lower(), justify="right")
    counts = {key: value for key, value in found.items() if not key.startswith("line|")}
    for service in sorted({key.split("|")[0] for key in counts}):
        table.add_row(service, *(f"{counts.get(f'{service}|{level}', 0):,}" for level in levels))
    return table
