"""The reader of our output has gone (`… | head`): that is its right, and no failure."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def discard_output() -> None:
    """What is still to be written, at the latest when the process ends, goes nowhere instead of failing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Who closed our output or errors (`>&-`) wants to see nothing of them. A socket must not take their place either:
    what a library writes there by number would go to a broker."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(lowest, True)
    for number in (1, 2):
        # A shell whose errors are closed leaves the script it reads in their place.
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            os.dup2(lowest, number)
    os.close(lowest)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (open as long as the process)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 (open as long as the process)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ends the block quietly when nobody reads any more. Flushes, so that it is noticed here and not at exit."""
    open_streams()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
