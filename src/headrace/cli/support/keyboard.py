"""Reads single key presses while a live view runs, without Enter and without echo."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def keys() -> Iterator[Callable[[], str]]:
    """Yields a function that returns the key pressed since the last call, or "". Without a terminal it returns "".

    Ctrl-C still interrupts. A background process must not read the terminal, or the system stops it.
    """
    if not sys.stdin.isatty() or not _is_in_foreground(sys.stdin.fileno()):
        yield lambda: ""
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed() -> str:
        if not _is_in_foreground(terminal):
            return ""
        ready, _, _ = select.select([terminal], [], [], 0)
        return os.read(terminal, 1).decode(errors="replace") if ready else ""

    tty.setcbreak(terminal)
    try:
        yield pressed
    finally:
        if _is_in_foreground(terminal):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_in_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
