"""A new log has no files until its first append, and behaves like a log with files."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, read_all

TOPIC_ID = uuid.UUID(int=7)


def opened(path: Path) -> LogDirs:
    settings = StorageSettings((path,), node_id=1)
    return LogDirs.open(settings, config_of=lambda topic: LogConfig(), lazy_logs=LazyLogs())


def test_first_append_creates_the_files_and_a_crash_loses_nothing(tmp_path: Path) -> None:
    dirs = opened(tmp_path)
    log = dirs.create("orders", 0, TOPIC_ID, now_ms=NOW_MS)
    log.leader_epochs.assign(3, 0)
    assert not (tmp_path / "orders-0").exists()
    append(log, a_batch(4), epoch=3)
    assert len(read_all(log)) == 4
    dirs.close(clean=False)
    again = opened(tmp_path).log("orders", 0)
    assert again is not None and again.topic_id == TOPIC_ID and again.log_end_offset == 4
    assert again.leader_epochs.entries == [(3, 0)]
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


def test_log_without_files_behaves_like_an_empty_log(tmp_path: Path) -> None:
    dirs = opened(tmp_path)
    log = dirs.create("orders", 0, TOPIC_ID, now_ms=NOW_MS)
    assert log.read(0, 1000) is None
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None
    assert log.aborted_transactions(0, 10) == []
    assert log.delete_old_segments(NOW_MS + (1 << 40)).count == 0
    log.truncate_to(0)
    log.flush()
    dirs.checkpoint()
    dirs.flush_due(NOW_MS + (1 << 40))
    assert log.size_bytes == 0 and not (tmp_path / "orders-0").exists()
    log.truncate_fully_and_start_at(9)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9) and (tmp_path / "orders-0").exists()
    dirs.close()


def test_files_are_created_a_few_at_a_time_and_at_the_latest_by_a_clean_stop(tmp_path: Path) -> None:
    dirs = opened(tmp_path)
    for index in range(7):
        dirs.create("orders", index, TOPIC_ID, now_ms=NOW_MS)
    assert dirs.lazy_logs is not None
    asyncio.run(asyncio.wait_for(dirs.lazy_logs.wait(), 10))
    assert dirs.lazy_logs.make_some(3)
    assert len(list(tmp_path.glob("orders-*"))) == 3
    dirs.close()
    names = {path.name for path in (tmp_path / "orders-5").iterdir()}
    stem = "0" * 20
    assert names >= {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", "partition.metadata"}
    again = opened(tmp_path)
    assert again.all_clean and len(again.logs()) == 7
    again.close()


def test_log_deleted_before_its_files_exist_leaves_no_files(tmp_path: Path) -> None:
    dirs = opened(tmp_path)
    dirs.create("orders", 0, TOPIC_ID, now_ms=NOW_MS)
    assert dirs.delete("orders", 0, now_ms=NOW_MS)
    assert dirs.lazy_logs is not None and not dirs.lazy_logs.make_some(10)
    assert not list(tmp_path.glob("orders-*"))
    # A recreated topic of the same name gets another log.
    successor = dirs.create("orders", 0, uuid.UUID(int=8), now_ms=NOW_MS)
    append(successor, a_batch(1))
    dirs.close()
    log = opened(tmp_path).log("orders", 0)
    assert log is not None and log.topic_id == uuid.UUID(int=8)


def test_failed_file_creation_refuses_the_append_and_not_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = opened(tmp_path)
    log = dirs.create("orders", 0, TOPIC_ID, now_ms=NOW_MS)
    with monkeypatch.context() as full:
        full.setattr(Path, "mkdir", _no_space)
        with pytest.raises(StorageFault, match="no space left"):
            append(log, a_batch(1))
        assert dirs.lazy_logs is not None and not dirs.lazy_logs.make_some(10)
    append(log, a_batch(1))
    assert log.log_end_offset == 1
    dirs.create("other", 0, TOPIC_ID, now_ms=NOW_MS)
    with monkeypatch.context() as full:
        full.setattr(Path, "mkdir", _no_space)
        dirs.close()
    again = opened(tmp_path)
    assert again.all_clean and [log.topic for log in again.logs()] == ["orders"]
    again.close()


def _no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")
