"""Progress line of long work: only in a terminal, on stderr, after a short delay.

    sending [########            ] 41% 205,000 records, 102,411/s, 3 s left

Progress is measured by the number of steps (`total`), or by the bytes read from an input file (`Share`), whose records
cannot be counted before they are read.
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
    """Share of the input that has been read, from 0 to 1; None while it is unknown."""

    done: float | None = None


@contextmanager
def progress(
    what: str, *, total: int | None = None, share: Share | None = None, unit: str = "", shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yields a function that advances the progress. `shown` is false if a user types the input."""
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
        # Erase to the end of the line, because the line before may have been longer.
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
