"""What a command reports that changes something: a sentence a thing for people, the same as data for programs.

`done` of a row says whether the thing was changed: false with --dry-run, and where nothing had to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from headrace.cli.support.output import Format, show, show_one

Row = Mapping[str, object]
R = TypeVar("R", bound=Row)


def report(rows: Sequence[R], form: Format, sentence: Callable[[R], str]) -> None:
    """Of a command that changes any number of things: a list for programs."""
    if form is not Format.TABLE:
        show(rows, form)
        return
    for row in rows:
        print(sentence(row))


def report_one(row: Row, form: Format, sentence: str) -> None:
    """Of a command that changes one thing: one document for programs."""
    if form is not Format.TABLE:
        show_one(row, form)
    else:
        print(sentence)


def verb(row: Row, done: str, would: str) -> str:
    """`verb(row, "deleted", "delete")` → `deleted`, or `would delete`."""
    return done if row["done"] else f"would {would}"
