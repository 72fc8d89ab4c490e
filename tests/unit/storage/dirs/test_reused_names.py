"""A topic with the name of a deleted one: the checkpoints of the deleted log do not apply to the new one.

With the log start of the deleted log, the records of the new one would count as deleted after a crash.
"""

from __future__ import annotations

import errno
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    write_offsets,
)
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.testing import full_disk
from tests.support.clock import PATIENCE_S
from tests.support.logs import a_batch, append, read_all

WRITE = "headrace.storage.dirs.log_dir.write_offsets"


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


def a_log_that_lost_its_first_records(dirs: LogDirs) -> None:
    log = dirs.create("orders", 0, uuid.uuid4())
    append(log, a_batch(100))
    log.flush()
    log.advance_high_watermark(100)
    log.advance_log_start(90)


def all_records_are_there_after_a_crash(dirs: LogDirs, topic_id: uuid.UUID) -> None:
    dirs.close(clean=False)
    dirs = LogDirs.open(dirs.settings)
    found = dirs.log("orders", 0)
    assert found is not None and found.topic_id == topic_id
    assert (found.log_start_offset, len(read_all(found))) == (0, 3)
    dirs.close()


@pytest.mark.parametrize("is_lazy", [True, False])
@pytest.mark.parametrize("file", [RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE])
def test_checkpoints_of_which_only_some_had_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, is_lazy: bool
) -> None:
    """The first files name a young topic already, and the last one does not."""
    dirs = LogDirs.open(StorageSettings([tmp_path]), lazy_logs=LazyLogs() if is_lazy else None)
    a_log_that_lost_its_first_records(dirs)

    def full_at(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
        if path.name == file:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_offsets(path, offsets)

    with monkeypatch.context() as full:
        full.setattr(WRITE, full_at)
        dirs.checkpoint()
    dirs.delete("orders", 0)
    new = dirs.create("orders", 0, uuid.uuid4())
    append(new, a_batch(3))
    assert new.topic_id is not None
    all_records_are_there_after_a_crash(dirs, new.topic_id)


@pytest.mark.parametrize("is_lazy", [True, False])
def test_checkpoint_that_is_being_written_during_the_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lazy: bool
) -> None:
    dirs = LogDirs.open(StorageSettings([tmp_path]), lazy_logs=LazyLogs() if is_lazy else None)
    a_log_that_lost_its_first_records(dirs)
    writes, may_go_on = threading.Event(), threading.Event()

    def waiting(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
        if threading.current_thread() is timer:
            writes.set()
            assert may_go_on.wait(PATIENCE_S)
        write_offsets(path, offsets)

    monkeypatch.setattr(WRITE, waiting)
    timer = threading.Thread(target=dirs.checkpoint)
    timer.start()
    assert writes.wait(PATIENCE_S)
    dirs.delete("orders", 0)
    # The loop looks at the marks now, and must wait for the thread before it writes without the deleted log.
    home, look = dirs.directories[0], dirs.directories[0].still_marks
    monkeypatch.setattr(home, "still_marks", lambda key: (look(key), may_go_on.set())[0])
    new = dirs.create("orders", 0, uuid.uuid4())
    may_go_on.set()
    timer.join()
    append(new, a_batch(3))
    assert new.topic_id is not None
    all_records_are_there_after_a_crash(dirs, new.topic_id)
