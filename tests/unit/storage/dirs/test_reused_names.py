"""A topic with the name of a deleted one: the checkpoints of the deleted log do not apply to the new one.

With the log start of the deleted log, the records of the new one would count as deleted after a crash.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.testing import full_disk
from tests.support.logs import a_batch, append, read_all


@pytest.mark.parametrize("is_lazy", [True, False])
@pytest.mark.parametrize("was_full", [True, False])
def test_records_of_a_new_topic_survive_a_crash(tmp_path: Path, was_full: bool, is_lazy: bool) -> None:
    settings = StorageSettings([tmp_path])
    dirs = LogDirs.open(settings, lazy_logs=LazyLogs() if is_lazy else None)
    old = dirs.create("orders", 0, uuid.uuid4())
    append(old, a_batch(100))
    old.advance_high_watermark(100)
    old.advance_log_start(90)
    dirs.checkpoint()
    dirs.delete("orders", 0)
    new_id = uuid.uuid4()
    if was_full:
        full_disk.fill(tmp_path)
        try:
            with pytest.raises(StorageFault, match=r"(?i)no space left"):
                append(dirs.create("orders", 0, new_id), a_batch(1))
        finally:
            full_disk.make_room(tmp_path)
    new = dirs.create("orders", 0, new_id)
    append(new, a_batch(3))
    dirs.close(clean=False)
    dirs = LogDirs.open(settings)
    found = dirs.log("orders", 0)
    assert found is not None and found.topic_id == new_id
    assert (found.log_start_offset, len(read_all(found))) == (0, 3)
    dirs.close()


def test_a_checkpoint_of_the_new_log_is_enough(tmp_path: Path) -> None:
    """The first append after a full disk writes no checkpoint if the timer has written one."""
    dirs = LogDirs.open(StorageSettings([tmp_path]), lazy_logs=LazyLogs())
    append(dirs.create("orders", 0, uuid.uuid4()), a_batch(1))
    dirs.checkpoint()
    dirs.delete("orders", 0)
    full_disk.fill(tmp_path)
    try:
        new = dirs.create("orders", 0, uuid.uuid4())
    finally:
        full_disk.make_room(tmp_path)
    (directory,) = dirs.directories
    assert directory.has_outdated_marks(new.name)
    dirs.checkpoint()
    assert not directory.has_outdated_marks(new.name)
    append(new, a_batch(1))
    dirs.close()
