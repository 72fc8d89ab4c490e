"""A full disk: the log refuses and undoes the write, keeps serving reads, and accepts writes when there is space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kernel.errors import ErrorCode, StorageFault
from headrace.records.control import build_end_txn_marker
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, read_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill_until_refused(log: Log, size: int) -> int:
    taken = 0
    while True:
        try:
            append(log, a_batch(1, value=os.urandom(size)))
        except StorageFault as fault:
            assert fault.code is ErrorCode.kafka_storage_error and "no space" in fault.message
            return taken
        taken += 1


@pytest.mark.parametrize("segment_bytes", [1 << 30, 100_000], ids=["one segment", "rolling"])
@pytest.mark.parametrize("size", [300, 20_000])
def test_full_disk_leaves_no_torn_batch_and_appends_resume_with_space(
    small_disk: Path, size: int, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, segment_index_bytes=64 * 1024)
    settings = StorageSettings([small_disk])
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1024 * 1024))
    dirs = LogDirs.open(settings, config_of=lambda topic: config)
    log = dirs.create("orders", 0)
    taken = fill_until_refused(log, size)
    assert taken > 10 and log.log_end_offset == taken
    assert len(read_all(log)) == taken, "reads go on"
    assert dirs.offline == []
    fill_until_refused(log, 1)
    dirs.checkpoint()
    assert dirs.offline == [], "a checkpoint that does not fit is no reason to stop"
    taken = log.log_end_offset
    assert len(read_all(log)) == taken

    # A crash on the full disk, and a start on it.
    dirs.close(clean=False)
    dirs = LogDirs.open(settings, config_of=lambda topic: config)
    reopened = dirs.log("orders", 0)
    assert reopened is not None and dirs.offline == [] and not dirs.damages
    assert reopened.log_end_offset == taken and len(read_all(reopened)) == taken

    ballast.unlink()
    more = fill_until_refused(reopened, size)
    assert more > 5 and len(read_all(reopened)) == taken + more
    found = reopened.offset_of_max_timestamp()
    assert found is not None
    dirs.close(clean=False)


def test_aborted_transaction_survives_a_full_disk(small_disk: Path) -> None:
    settings = StorageSettings([small_disk])
    dirs = LogDirs.open(settings)
    log = dirs.create("orders", 0)
    append(log, a_batch(1, producer=(7, 0, 0), transactional=True))
    marker = build_end_txn_marker(False, 0, 7, 0, NOW_MS)
    # The marker fits into the last page of the data file; a new file would need another page.
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        while True:
            file.write(bytes(4096))
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert [a.first_offset for a in log.aborted_transactions(0, 10)] == [0]
    index = log.active_segment.txn_index.path
    assert not index.exists() or index.stat().st_size == 0, "the disk really was full"
    ballast.unlink()
    dirs.close()
    again = LogDirs.open(settings)
    reopened = again.log("orders", 0)
    assert reopened is not None and [a.first_offset for a in reopened.aborted_transactions(0, 10)] == [0]
    again.close()
