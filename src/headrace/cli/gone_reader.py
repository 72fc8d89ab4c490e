"""The reader of our output has gone (`… | head`): that is its right, and no failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def discard_output() -> None:
    """What is still to be written, at the latest when the process ends, goes nowhere instead of failing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ends the block quietly when nobody reads any more. Flushes, so that it is noticed here and not at exit."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
