"""All logs of a broker: restored after a stop or a crash, locked against other processes, usable if one disk fails."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.records.control import build_end_txn_marker
from headrace.storage.dirs.checkpoints import read_offsets, read_properties
from headrace.storage.dirs.log_dir import DirectoryInUse
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.files import SharedFile
from headrace.storage.leader_append import AppendOrigin
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import Progress
from tests.support.logs import NOW_MS, a_batch, append, open_dirs, read_all


def test_restart_restores_records_topic_ids_and_offsets(tmp_path: Path) -> None:
    topic_id = uuid.uuid4()
    dirs = open_dirs(tmp_path)
    log = dirs.create("orders", 3, topic_id)
    append(log, a_batch(10))
    log.advance_high_watermark(7)
    log.advance_log_start(4)
    dirs.close(broker_epoch=55)
    again = open_dirs(tmp_path)
    log = again.log("orders", 3)  # type: ignore[assignment]
    assert log is not None and log.topic_id == topic_id
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (4, 7, 10, 10)
    assert again.all_clean and again.directories[0].previous_broker_epoch == 55
    assert again.create("orders", 3, topic_id) is log
    again.close()


def test_checkpoint_files_have_kafkas_names_and_format(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path, cluster_id="abc-cluster")
    topic_id = uuid.uuid4()
    log = dirs.create("a.b_c-d", 0, topic_id)
    append(log, a_batch(4))
    log.advance_high_watermark(3)
    log.flush()
    dirs.checkpoint()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na.b_c-d 0 4\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\na.b_c-d 0 3\n"
    assert read_offsets(tmp_path / "log-start-offset-checkpoint") == {}
    assert (
        tmp_path / "a.b_c-d-0" / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    meta = read_properties(tmp_path / "meta.properties")
    assert (meta["version"], meta["node.id"], meta["cluster.id"]) == ("1", "1", "abc-cluster") and len(
        meta["directory.id"]
    ) == 22
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    dirs.close(broker_epoch=9)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 9}


@pytest.mark.parametrize("checkpoint", ["there", "missing", "torn"])
def test_start_detects_a_lost_aborted_transaction_index(tmp_path: Path, checkpoint: str) -> None:
    dirs = open_dirs(tmp_path, config=LogConfig(segment_bytes=400))
    log = dirs.create("orders", 0)
    for sequence in range(6):
        append(log, a_batch(1, value=bytes(50), producer=(5, 0, sequence), transactional=True))
        marker = build_end_txn_marker(sequence % 2 == 0, 0, 5, 0, NOW_MS)
        log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    aborted = [(2, 3), (6, 7), (10, 11)]
    dirs.close()
    indexes = sorted((tmp_path / "orders-0").glob("*.txnindex"))
    assert len(indexes) >= 2
    for index in indexes:
        index.unlink()
    file = tmp_path / "aborted-transactions-checkpoint"
    if checkpoint == "missing":
        file.unlink()
    if checkpoint == "torn":
        os.truncate(file, file.stat().st_size - 4)
    again = open_dirs(tmp_path)
    found = again.logs()[0].aborted_transactions(0, 12)
    assert [(one.first_offset, one.last_offset) for one in found] == aborted
    assert sorted((tmp_path / "orders-0").glob("*.txnindex")) == indexes
    again.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_recreated_topic_has_no_records_of_the_deleted_one_after_a_crash(tmp_path: Path, restarted: bool) -> None:
    dirs = open_dirs(tmp_path)
    log = dirs.create("orders", 0)
    append(log, a_batch(9))
    log.advance_high_watermark(9)
    log.advance_log_start(7)
    log.flush()
    dirs.checkpoint()
    dirs.delete("orders", 0, now_ms=NOW_MS)
    if restarted:
        dirs.close(clean=False)
        dirs = open_dirs(tmp_path)
    append(dirs.create("orders", 0), a_batch(2))
    dirs.close(clean=False)
    again = open_dirs(tmp_path)
    [log] = again.logs()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 2, 0)
    assert [record.offset for record in read_all(log)] == [0, 1]
    again.close()


def test_start_detects_a_crash_and_recovery_reports_its_progress(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=500)
    dirs = open_dirs(tmp_path, config=config)
    for index in range(3):
        log = dirs.create("orders", index)
        for _ in range(10):
            append(log, a_batch(1, value=b"x" * 100))
    dirs.close(clean=False)
    seen: list[Progress] = []
    again = open_dirs(tmp_path, config=config, on_progress=seen.append)
    assert not again.all_clean
    assert {step.partition for step in seen} == {TopicPartition("orders", index) for index in range(3)}
    assert any(step.segments_done == step.segments_to_check > 1 for step in seen)
    assert all(len(read_all(log)) == 10 for log in again.logs())
    again.close()


def test_recovery_uses_several_threads(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    for index in range(8):
        append(dirs.create("orders", index), a_batch(5))
    dirs.close(clean=False)
    threads: set[str] = set()
    meeting = threading.Barrier(2, timeout=10)

    def note(step: Progress) -> None:
        threads.add(threading.current_thread().name)
        if step.partition.partition < 2:
            meeting.wait()

    open_dirs(tmp_path, on_progress=note).close()
    assert len(threads) == 2


def test_damaged_checkpoints_only_cause_a_check_of_the_logs(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    append(dirs.create("orders", 0), a_batch(5))
    dirs.close(clean=False)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"\x00\xff garbage")
    again = open_dirs(tmp_path)
    log = again.log("orders", 0)
    assert log is not None and log.log_end_offset == 5
    again.close()


def test_new_log_is_created_in_the_directory_with_the_fewest_logs(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    homes = [dirs.create("orders", index).directory.parent.name for index in range(4)]
    assert homes.count("a") == homes.count("b") == 2
    dirs.close()


def test_deleted_log_is_unavailable_at_once_and_its_files_are_removed_after_the_delay(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    append(dirs.create("orders", 0, config=LogConfig(file_delete_delay_ms=1000)), a_batch())
    assert dirs.delete("orders", 0, now_ms=NOW_MS) and dirs.log("orders", 0) is None
    left = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert len(left) == 1 and left[0].startswith("orders-0.") and left[0].endswith("-delete")
    fresh = dirs.create("orders", 0)
    assert fresh.log_end_offset == 0
    assert dirs.purge_deletions(NOW_MS + 999) == 0 and dirs.purge_deletions(NOW_MS + 1000) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["orders-0"]
    dirs.close()


def test_start_finishes_an_interrupted_deletion(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    dirs.create("orders", 0)
    dirs.delete("orders", 0, now_ms=NOW_MS)
    dirs.close(clean=False)
    again = open_dirs(tmp_path)
    assert again.logs() == [] and again.purge_deletions(NOW_MS) == 1
    again.close()


def test_retention_applies_to_all_logs(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=300, retention_ms=1000, file_delete_delay_ms=5)
    dirs = open_dirs(tmp_path, config=config)
    for index in range(2):
        log = dirs.create("orders", index)
        for at in range(6):
            append(log, a_batch(1, value=b"x" * 100, timestamps=[NOW_MS + at * 500]), now_ms=NOW_MS + at * 500)
        log.advance_high_watermark(6)
    assert dirs.delete_old_segments(NOW_MS + 2700) > 0
    for log in dirs.logs():
        assert log.log_start_offset > 0 and all(record.offset >= log.log_start_offset for record in read_all(log))
        assert list(log.directory.glob("*.deleted"))
    dirs.purge_deletions(NOW_MS + 2705)
    assert not list(tmp_path.glob("*/*.deleted"))
    dirs.close()


def test_retention_disk_percent_bounds_a_log(tmp_path: Path) -> None:
    total = os.statvfs(tmp_path)
    one_kilobyte_in_percent = 100 * 1024 / (total.f_blocks * total.f_frsize)
    dirs = open_dirs(tmp_path, config=LogConfig(segment_bytes=300, retention_disk_percent=one_kilobyte_in_percent))
    log = dirs.create("orders", 0)
    for _ in range(30):
        append(log, a_batch(1, value=b"x" * 100))
    log.advance_high_watermark(30)
    dirs.delete_old_segments(NOW_MS)
    assert 1024 <= log.size_bytes < 1024 + 300
    dirs.close()


def test_flush_follows_the_topics_settings(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    by_count = dirs.create("orders", 0, config=LogConfig(flush_messages=3))
    by_time = dirs.create("orders", 1, config=LogConfig(flush_ms=1000))
    never = dirs.create("orders", 2)
    rolled = dirs.create("orders", 3, config=LogConfig(segment_bytes=150))
    dirs.flush_due(NOW_MS)
    for log in (by_count, by_time, never, rolled):
        append(log, a_batch(2))
    append(rolled, a_batch(2))
    by_time.last_flush_ms = NOW_MS
    dirs.flush_due(NOW_MS + 10)
    assert [log.recovery_point for log in (by_count, by_time, never, rolled)] == [0, 0, 0, 4]
    append(by_count, a_batch(1))
    dirs.flush_due(NOW_MS + 1000)
    assert [log.recovery_point for log in (by_count, by_time, never)] == [3, 2, 0]
    dirs.close()


def test_idle_producers_expire(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    append(dirs.create("orders", 0), a_batch(1, producer=(9, 0, 0)))
    assert dirs.expire_producers(NOW_MS + 4999, idle_ms=5000) == 0
    assert dirs.expire_producers(NOW_MS + 5000, idle_ms=5000) == 1
    dirs.close()


# Who may use a directory


def test_second_process_is_refused_with_the_name_of_the_lock_holder(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    program = (
        "import sys; from pathlib import Path; from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings\n"
        "from headrace.storage.dirs.log_dir import DirectoryInUse\n"
        "try: LogDirs.open(StorageSettings([Path(sys.argv[1])], node_id=1))\n"
        "except DirectoryInUse as refusal: print(refusal)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert "headrace broker 1" in told and f"process {os.getpid()}" in told and str(tmp_path) in told
    dirs.close()
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert told == ""


def test_the_same_process_is_refused_too_and_keeps_its_lock(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path)
    for _ in range(2):
        with pytest.raises(DirectoryInUse, match="headrace broker 1"):
            open_dirs(tmp_path)
    dirs.close()
    open_dirs(tmp_path).close()


def test_a_directory_of_another_broker_or_cluster_is_refused(tmp_path: Path) -> None:
    open_dirs(tmp_path, cluster_id="one").close()
    with pytest.raises(StorageFault, match="cluster one"):
        open_dirs(tmp_path, cluster_id="two")
    with pytest.raises(StorageFault, match="broker 1"):
        LogDirs.open(StorageSettings([tmp_path], node_id=2))
    open_dirs(tmp_path).close()


def test_closed_logs_leave_no_open_descriptors(tmp_path: Path) -> None:
    def count() -> int:
        # Count descriptors of this log only: objects of earlier tests may be collected at any moment.
        opened_here = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                opened_here += str(descriptor.readlink()).startswith(str(tmp_path))
        return opened_here

    dirs = open_dirs(tmp_path, config=LogConfig(segment_bytes=200))
    log = dirs.create("orders", 0)
    for _ in range(30):
        append(log, a_batch(1, value=b"x" * 100))
    piece = log.read(0, 100)
    assert piece is not None and isinstance(piece.file, SharedFile)
    del log
    dirs.close()
    assert count() == 1
    del piece, dirs
    assert count() == 0


def test_new_logs_avoid_cordoned_directories(tmp_path: Path) -> None:
    cordoned: list[str] = []
    paths = [tmp_path / "a", tmp_path / "b"]
    dirs = LogDirs.open(StorageSettings(paths), cordoned=lambda: cordoned)

    def home(partition: int) -> str:
        return dirs.directory_of(dirs.create("orders", partition)).path.name

    cordoned[:] = [str(tmp_path / "a")]
    assert [home(0), home(1)] == ["b", "b"]
    assert [(report.path.name, report.is_cordoned) for report in dirs.describe()] == [("a", True), ("b", False)]
    cordoned[:] = ["*"]
    assert home(2) == "a", "the controller placed it here before the last directory was cordoned"
    assert [report.is_cordoned for report in dirs.describe()] == [True, True]
    cordoned.clear()
    assert home(3) == "a"
    dirs.close()
