"""Ends a command without an error when the reader of its output has closed the pipe (`… | head`)."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def discard_output() -> None:
    """Redirects remaining output to /dev/null, so that the flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Opens /dev/null for closed standard streams (`>&-`). Otherwise a socket could get their file descriptor, and
    output that a library writes to descriptor 1 or 2 would go to a broker."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(lowest, True)
    for number in (1, 2):
        # If stderr is closed, a shell may have its script file open as descriptor 2.
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            os.dup2(lowest, number)
    os.close(lowest)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (open as long as the process)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 (open as long as the process)


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Ends the block without an error when the pipe is closed. Flushes, so that this happens here and not at exit."""
    open_streams()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
