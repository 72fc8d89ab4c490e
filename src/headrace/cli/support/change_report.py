"""Reports of commands that change something: one sentence per change for people, the same as data for programs.

`done` of a row says whether the command made the change: false with --dry-run, or if no change was necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from headrace.cli.support.output import Format, show, show_one

Row = Mapping[str, object]
R = TypeVar("R", bound=Row)


def report(rows: Sequence[R], form: Format, sentence: Callable[[R], str]) -> None:
    """For a command with any number of changes: a list for programs."""
    if form is not Format.TABLE:
        show(rows, form)
        return
    for row in rows:
        print(sentence(row))


def report_one(row: Row, form: Format, sentence: str) -> None:
    """For a command with one change: one document for programs."""
    if form is not Format.TABLE:
        show_one(row, form)
    else:
        print(sentence)


def verb(row: Row, done: str, would: str) -> str:
    """`verb(row, "deleted", "delete")` → `deleted`, or `would delete`."""
    return done if row["done"] else f"would {would}"
