"""Differences of two texts, line by line."""

from __future__ import annotations

import difflib
import json

from headrace.kernel.dataclass import dataclass

SAME, ADDED, REMOVED = " ", "+", "-"


@dataclass(frozen=True, slots=True)
class DiffLine:
    mark: str
    text: str


def line_diff(before: str, after: str) -> list[DiffLine]:
    found = difflib.ndiff(before.splitlines(), after.splitlines())
    return [DiffLine(line[0], line[2:]) for line in found if line[0] in (SAME, ADDED, REMOVED)]


def indented(text: str) -> str:
    """JSON with one field a line; other texts as they are."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
