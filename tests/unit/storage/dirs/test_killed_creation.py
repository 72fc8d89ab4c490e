"""A process that is killed while it creates a log: the next start uses what it left, at every step of the creation."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path

from tests.support.logs import a_batch, append, open_dirs, read_all

# Python reports these before it does them.
_STEPS = ("open", "os.mkdir", "os.rename", "os.truncate")
_DONE = 0


def create_and_die(directory: Path, topic_id: uuid.UUID, step: int) -> None:
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
    dirs.create("orders", 0, topic_id).make_files()
    os._exit(_DONE)


def killed_at(directory: Path, topic_id: uuid.UUID, step: int) -> bool:
    """Whether a child process was killed at this step of the creation, or was done before."""
    child = os.fork()
    if child == 0:
        try:
            create_and_die(directory, topic_id, step)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == _DONE
    return os.WIFSIGNALED(status)


def test_a_log_is_created_after_a_kill_at_every_step(tmp_path: Path) -> None:
    left = set[tuple[str, ...]]()
    for step in range(100):
        directory, topic_id = tmp_path / str(step), uuid.uuid4()
        was_killed = killed_at(directory, topic_id, step)
        place = directory / "orders-0"
        left.add(tuple(sorted(file.name for file in place.iterdir())) if place.exists() else ("nothing",))
        dirs = open_dirs(directory)
        log = dirs.create("orders", 0, topic_id)
        append(log, a_batch(3))
        dirs.close()
        again = open_dirs(directory)
        found = again.log("orders", 0)
        assert found is not None
        assert (found.topic_id, len(read_all(found))) == (topic_id, 3), f"killed at step {step}"
        again.close()
        if not was_killed:
            break
    else:
        raise AssertionError("the creation has more steps than expected")
    # The states that differ for a start: no directory, an empty one, a draft of the topic id, the id, the data file.
    assert {("nothing",), (), ("partition.metadata.tmp",), ("partition.metadata",)} <= left
