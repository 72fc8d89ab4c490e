"""Standard log lines and their counts without Spark, and the picture."""

from __future__ import annotations

import json
from collections import Counter

from headrace.demos.picture import Feed, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Log lines of services in one format, counted by level."
OUTPUTS = {"logs": kept(7, 3), "log-counts": compacted()}


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


def picture(found: Result, rows: int) -> Picture:
    levels = ("INFO", "WARN", "ERROR", "UNREADABLE")
    counts = {key: value for key, value in found.items() if not key.startswith("line|")}
    services = sorted({key.split("|")[0] for key in counts})
    table = [[service, *(counts.get(f"{service}|{level}", 0) for level in levels)] for service in services]
    errors = [" ".join(key.split("|", 3)[1:]) for key in found if key.startswith("line|") and "|ERROR|" in key]
    return panels(
        Table("log lines", ("service", *(level.lower() for level in levels)), table),
        Feed("latest errors", errors[-rows // 2 :][::-1]),
    )
