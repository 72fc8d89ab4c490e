"""A line that says how far long work has come: in a terminal only, on stderr, after a moment of patience.

    sending [########            ] 41% 205,000 records, 102,411/s, 3 s left

How much is done is known by the number of steps (`total`), or by whoever reads the input (`Share`): a file's records
are not counted before they are read, but its bytes are.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_PATIENCE_S: Final = 0.5
_EVERY_S: Final = 0.2
_BAR: Final = 20


@dataclass(slots=True)
class Share:
    """How much of the input has been read, from 0 to 1; None while nobody can tell."""

    done: float | None = None


@contextmanager
def progress(
    what: str, *, total: int | None = None, share: Share | None = None, unit: str = "", shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told about each step. Not `shown` is for a person who types the input."""
    if not shown or not sys.stderr.isatty():
        yield lambda steps: None
        return
    done = 0
    began = shown_at = time.monotonic()
    drawn = False

    def advance(steps: int) -> None:
        nonlocal done, shown_at, drawn
        done += steps
        now = time.monotonic()
        if now - began < _PATIENCE_S or now - shown_at < _EVERY_S:
            return
        shown_at, drawn = now, True
        part = done / total if total else share.done if share is not None else None
        width = shutil.get_terminal_size().columns - 1
        # Erased to the end of the line: a shorter line must not leave the rest of a longer one.
        print(f"\r{_line(what, done, unit, part, now - began)[:width]}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _line(what: str, done: int, unit: str, part: float | None, seconds: float) -> str:
    pace = f"{done:,} {unit}, {done / seconds:,.0f}/s"
    if not part:
        return f"{what} {pace}"
    part = min(part, 1.0)
    left = seconds / part - seconds
    return f"{what} [{'#' * int(_BAR * part):<{_BAR}}] {100 * part:.0f}% {pace}, {left:,.0f} s left"
