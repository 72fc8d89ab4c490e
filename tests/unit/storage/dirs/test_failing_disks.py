"""A failed disk takes its log directory offline; the other directories keep serving."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.storage.dirs import start_recovery
from headrace.storage.recovery.recovery import open_log
from tests.support.logs import a_batch, append, open_dirs


def fail_with(error: int, monkeypatch: pytest.MonkeyPatch, name: str, directory: Path) -> None:
    """Makes the system call fail with `error` for files below `directory`."""
    real = getattr(os, name)

    def failing(fd: int, *arguments: object) -> object:
        if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(directory):
            raise OSError(error, os.strerror(error))
        return real(fd, *arguments)

    monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_disk_error_takes_one_directory_offline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    logs = [dirs.create("orders", index) for index in range(4)]
    for log in logs:
        append(log, a_batch(2))
    seen: list[str] = []
    dirs.on_offline(lambda directory: seen.append(directory.path.name))
    bad = [log for log in logs if log.directory.parent.name == "a"]
    good = [log for log in logs if log.directory.parent.name == "b"]
    fail_with(errno.EIO, monkeypatch, call, tmp_path / "a")
    with pytest.raises(StorageFault):
        append(bad[0], a_batch()) if call == "pwrite" else bad[0].flush()
    monkeypatch.undo()
    assert seen == ["a"] and [directory.path.name for directory in dirs.offline] == ["a"]
    for log in bad:
        # A failed fsync is never repeated: a later success would be wrong.
        for use in (lambda log=log: append(log, a_batch()), lambda log=log: log.read(0, 100)):
            with pytest.raises(StorageFault, match="offline"):
                use()
    for log in good:
        assert append(log, a_batch()) == (2, 2)
    assert dirs.create("orders", 9).directory.parent.name == "b"
    dirs.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists() and (tmp_path / "b" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_that_an_fsync_reports_takes_the_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Thin volumes and network file systems accept a write and find no space for it later. The records may be lost."""
    dirs = open_dirs(tmp_path)
    log = dirs.create("orders", 0)
    append(log, a_batch(2))
    with monkeypatch.context() as full:
        fail_with(error, full, "fsync", log.active_segment.path)
        with pytest.raises(StorageFault):
            log.flush()
    with pytest.raises(StorageFault, match="offline"):
        append(log, a_batch())
    assert log.recovery_point == 0 and dirs.offline == dirs.directories
    dirs.close()


def test_a_failed_disk_loses_its_own_replicas_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    first, second = dirs.directories
    logs = [dirs.create("orders", index) for index in range(6)]
    on_first = [log for log in logs if dirs.directory_of(log) is first]
    moving, with_bug, healthy = [log for log in logs if dirs.directory_of(log) is second]
    copy = dirs.begin_move(moving.name, first).log

    def appended(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(with_bug.producers, "appended", appended)
    with pytest.raises(ZeroDivisionError):
        append(with_bug, a_batch(producer=(5, 0, 0)))
    assert with_bug.offline_reason is not None, "the log is offline alone"
    assert dirs.logs_on_failed_disks() == []
    dirs.take_offline(first, "its disk failed")
    assert dirs.logs_on_failed_disks() == on_first and copy.offline_reason is not None
    assert moving.offline_reason is None and healthy.offline_reason is None
    dirs.close()


@pytest.mark.parametrize("closing", [False, True])
def test_a_checkpoint_that_fails_takes_its_directory_offline_with_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    logs = [dirs.create("orders", index) for index in range(2)]
    for log in logs:
        append(log, a_batch())
        log.flush()
        log.close()
    seen: list[str] = []
    dirs.on_offline(lambda directory: seen.append(directory.path.name))
    fail_with(errno.EIO, monkeypatch, "pwrite", tmp_path / "a")
    if closing:
        dirs.close()
    else:
        dirs.checkpoint()
    monkeypatch.undo()
    assert seen == ["a"]
    if not closing:
        assert [log.offline_reason is None for log in logs] == [False, True]
        dirs.close()
    marks = [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in ("a", "b")]
    assert marks == [False, True], "the directory that failed is checked at the next start, the other is not"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_directory_goes_offline_while_the_other_serves(tmp_path: Path) -> None:
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(frozen)], check=True)
    try:
        dirs = open_dirs(frozen, tmp_path / "fine")
        assert [(d.path.name, "Read-only" in (d.offline_reason or "")) for d in dirs.offline] == [("frozen", True)]
        append(dirs.create("orders", 0), a_batch())
        dirs.close()
        with pytest.raises(StorageFault, match="no log directory"):
            open_dirs(frozen)
    finally:
        subprocess.run(["umount", str(frozen)], check=True)


def test_unreadable_log_directory_does_not_stop_the_others(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    for index in range(2):
        append(dirs.create("orders", index), a_batch())
    dirs.close()
    victim = next((tmp_path / "a").glob("orders-*")) / f"{0:020d}.log"
    victim.unlink()
    victim.mkdir()
    again = open_dirs(tmp_path / "a", tmp_path / "b")
    assert [directory.path.name for directory in again.offline] == ["a"] and len(again.logs()) == 1
    again.close()


def test_a_bug_while_a_log_is_opened_takes_its_directory_offline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    for index in range(2):
        append(dirs.create("orders", index), a_batch())
    dirs.close()
    real = open_log

    def broken(path: Path, *arguments: object, **options: object) -> object:
        if path.parent.name == "a":
            raise IndexError("list index out of range")
        return real(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(start_recovery, "open_log", broken)
    again = open_dirs(tmp_path / "a", tmp_path / "b")
    ((path, reason),) = [(directory.path.name, directory.offline_reason or "") for directory in again.offline]
    assert path == "a" and "orders-" in reason and "list index out of range" in reason
    assert len(again.logs()) == 1 and any(record.exc_info for record in caplog.records)
    again.close()
