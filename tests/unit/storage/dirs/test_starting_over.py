"""A replica that starts over on a full disk: it is empty, in memory, and takes records when there is space."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log
from headrace.storage.segment.index_file import IndexFile
from headrace.storage.segment.segment import Segment
from headrace.testing import full_disk
from tests.support.logs import NOW_MS, a_batch, append, open_at, open_dirs, read_all, read_batches

TOPIC_ID = uuid.UUID(int=7)
DAY_MS = 86_400_000
# The leader's log starts inside its first batch.
START = 5


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def a_replica(dirs: LogDirs) -> Log:
    log = dirs.create("orders", 0, TOPIC_ID)
    for epoch in range(3):
        append(log, a_batch(3), epoch=epoch)
        log.roll()
    return log


def sent_by_a_leader(directory: Path) -> bytes:
    leader = open_at(directory)
    append(leader, a_batch(10))
    return bytes(read_batches(leader)[0].data)


@pytest.mark.parametrize("offset", [100, 4, 0], ids=["above the log", "inside", "at its base"])
@pytest.mark.parametrize(
    "full",
    [
        lambda patched: patched.setattr(Segment, "create", no_space),
        lambda patched: patched.setattr(IndexFile, "activate", no_space),
    ],
    ids=["no file", "no index file"],
)
def test_the_directory_stays_online(
    tmp_path: Path, offset: int, full: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = open_dirs(tmp_path)
    log = a_replica(dirs)
    with monkeypatch.context() as patched:
        full(patched)
        log.truncate_fully_and_start_at(offset, now_ms=NOW_MS)
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (offset, offset, 0)
        assert log.read(offset, 1000) is None and log.offset_of_max_timestamp() is None
        dirs.flush_due(NOW_MS + DAY_MS)
        assert log.delete_old_segments(NOW_MS + 1000 * DAY_MS).count == 0
        with pytest.raises(StorageFault, match="no space"):
            append(log, a_batch(2))
    assert dirs.offline == []
    assert append(log, a_batch(2)) == (offset, offset + 1)
    log.flush()
    dirs.checkpoint()
    dirs.close()
    again = open_dirs(tmp_path).log("orders", 0)
    assert again is not None and [record.offset for record in read_all(again)] == [offset, offset + 1]


def test_a_replica_that_begins_inside_a_batch_takes_it_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = sent_by_a_leader(tmp_path / "leader")
    dirs = open_dirs(tmp_path / "a")
    log = dirs.create("orders", 0, TOPIC_ID)
    log.truncate_fully_and_start_at(START)
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "create", no_space)
        with pytest.raises(StorageFault, match="no space"):
            log.append_as_follower(records)
        dirs.flush_due(NOW_MS + DAY_MS)
    assert dirs.offline == [] and (log.log_start_offset, log.log_end_offset) == (START, START)
    log.append_as_follower(records)
    assert (log.log_start_offset, log.log_end_offset) == (START, 10)
    dirs.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_before_there_is_space_begins_at_the_same_offset(
    tmp_path: Path, clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = open_dirs(tmp_path)
    log = a_replica(dirs)
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "create", no_space)
        log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
        dirs.checkpoint()
        dirs.close(clean=clean)
    again = open_dirs(tmp_path).log("orders", 0)
    assert again is not None and (again.log_start_offset, again.log_end_offset) == (100, 100)


@pytest.mark.parametrize("offset", [4, 100])
def test_a_truncation_ends_although_the_epochs_cannot_be_written(tmp_path: Path, offset: int) -> None:
    """Their file follows when there is space."""
    dirs = open_dirs(tmp_path)
    log = a_replica(dirs)
    log.save_epochs()
    full_disk.fill(tmp_path)
    try:
        if offset > log.log_end_offset:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)
        dirs.flush_due(NOW_MS + DAY_MS)
    finally:
        full_disk.make_room(tmp_path)
    end = 3 if offset == 4 else offset
    assert dirs.offline == [] and (log.log_end_offset, log.segments.active.base_offset) == (end, end)
    assert log.save_epochs()
    dirs.close(clean=False)
    again = open_dirs(tmp_path).log("orders", 0)
    assert again is not None and again.leader_epochs.entries == ([(0, 0)] if offset == 4 else [])


def test_a_cut_on_a_full_disk_removes_all_segments_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = open_dirs(tmp_path)
    log = a_replica(dirs)
    with monkeypatch.context() as patched:
        patched.setattr(IndexFile, "activate", no_space)
        with pytest.raises(StorageFault, match="no space"):
            log.truncate_to(4)
        dirs.flush_due(NOW_MS + DAY_MS)
    assert dirs.offline == [] and len(read_all(log)) == 9
    log.truncate_to(4)
    assert append(log, a_batch(1)) == (3, 3)
    dirs.flush_due(NOW_MS + DAY_MS)
    dirs.close()
    again = open_dirs(tmp_path).log("orders", 0)
    assert again is not None and len(read_all(again)) == 4 and dirs.offline == []


@pytest.mark.parametrize("offset", [4, 100])
def test_a_flush_during_a_cut_misses_no_file(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a thread."""
    dirs = open_dirs(tmp_path)
    log = a_replica(dirs)
    real_remove = Segment.remove
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "remove", lambda segment: (real_remove(segment), log.flush()))
        if offset > log.log_end_offset:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)
    assert dirs.offline == []
    dirs.close()
