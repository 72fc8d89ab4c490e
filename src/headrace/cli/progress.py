"""A line that says how far long work has come: in a terminal only, on stderr, after a moment of patience."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_PATIENCE_S: Final = 1.0
_EVERY_S: Final = 0.2


@contextmanager
def progress(what: str, *, total: int | None = None, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Gives a function that is told about each step."""
    if not sys.stderr.isatty() or sys.stdin.isatty():
        # With a person typing the records there is nothing to wait for.
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
        share = "" if not total else f" [{'#' * (20 * done // total):<20}] {100 * done // total}%"
        print(f"\r{what}{share} {done:,} {unit}, {done / (now - began):,.0f}/s ", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        if drawn:
            print(f"\r{' ' * 78}\r", end="", file=sys.stderr, flush=True)
