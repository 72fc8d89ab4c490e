"""Differences of two texts, line by line."""

from __future__ import annotations

import difflib

from headrace.kernel.dataclass import dataclass

SAME, ADDED, REMOVED = " ", "+", "-"


@dataclass(frozen=True, slots=True)
class DiffLine:
    mark: str
    text: str


def line_diff(before: str, after: str) -> list[DiffLine]:
    found = difflib.ndiff(before.splitlines(), after.splitlines())
    return [DiffLine(line[0], line[2:]) for line in found if line[0] in (SAME, ADDED, REMOVED)]
