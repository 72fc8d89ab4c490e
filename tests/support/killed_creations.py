"""Kills a process at any step of the creation of a log."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path

from tests.support.logs import open_dirs

# Python reports these before it does them.
_STEPS = ("open", "os.mkdir", "os.rename", "os.truncate")
_DONE = 0


def _create_and_die(directory: Path, topic_id: uuid.UUID, step: int, why_incomplete: str | None) -> None:
    """Creates the log in the process, which is killed before the step of this number that concerns its directory."""
    dirs = open_dirs(directory)
    left = step

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        # Operations on an open file have its number instead of its path.
        if event in _STEPS and (isinstance(arguments[0], int) or "orders-0" in str(arguments[0])):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    dirs.create("orders", 0, topic_id, why_incomplete=why_incomplete).make_files()
    os._exit(_DONE)


def killed_at(directory: Path, topic_id: uuid.UUID, step: int, *, why_incomplete: str | None = None) -> bool:
    """Whether a child process was killed at this step of the creation, or was done before."""
    child = os.fork()
    if child == 0:
        try:
            _create_and_die(directory, topic_id, step, why_incomplete)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == _DONE
    return os.WIFSIGNALED(status)
