"""A process that is killed while it creates a log: the next start uses what it left, at every step of the creation."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.support.killed_creations import killed_at
from tests.support.logs import a_batch, append, open_dirs, read_all


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
