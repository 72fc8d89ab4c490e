"""Standard log lines and their counts without Spark, and the picture."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from headrace.demos.picture import Feed, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept
from headrace.records.builder import Record

TITLE = "Log lines of services in one format, counted by level."
OUTPUTS = {"logs": kept(7, 3), "log-counts": compacted()}
_LEVELS: Final = {3: "ERROR", 4: "WARN", 6: "INFO"}


def expected(inputs: Contents) -> Result:
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for service in ("shop", "payment", "mail"):
        for record in inputs.records[f"{service}-log"]:
            level, rest = _standard(service, record)
            lines[f"line|{service}|{level}|{rest}"] += 1
            counts[f"{service}|{level}"] += 1
    return {**counts, **lines}


def _standard(service: str, record: Record) -> tuple[str, str]:
    """Level, and host, code and message, of a line in the format of its service."""
    line = (record.value or b"").decode()
    try:
        level, host, code, message = _READERS[service](line)
    except (ValueError, KeyError):
        return "UNREADABLE", f"{(record.key or b'').decode()} {line}"
    return level, f"{host} {int(code)} {message}"


def _shop(line: str) -> tuple[str, str, str, str]:
    row = json.loads(line)
    return row["level"], row["host"], row["code"], row["text"]


def _payment(line: str) -> tuple[str, str, str, str]:
    head, rest = line.split(" [")
    _, level, host = head.split()
    code, message = rest.split("] ")
    return level, host, code, _not_empty(message)


def _mail(line: str) -> tuple[str, str, str, str]:
    head, code, message = line.split(" - ")
    priority, _, host, _ = head.split()
    severity = int(priority.removeprefix("<").removesuffix(">1")) % 8
    return _LEVELS[severity], host, code, _not_empty(message)


def _not_empty(message: str) -> str:
    """A line that was cut off before its message cannot be read."""
    if not message:
        raise ValueError("no message")
    return message


_READERS: Final = {"shop": _shop, "payment": _payment, "mail": _mail}


def found(outputs: Contents) -> Result:
    counts = {key: each["count"] for key, each in outputs.latest("log-counts").items()}
    lines = Counter(
        f"line|{row['service']}|{row['level']}|" + " ".join(str(row[name]) for name in _TEXTS if name in row)
        for row in outputs.rows("logs")
    )
    return {**counts, **lines}


# A line that cannot be read has no code.
_TEXTS: Final = ("host", "code", "message")


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
