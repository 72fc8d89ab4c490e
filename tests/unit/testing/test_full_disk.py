"""A full disk on request: writes below its directory fail, other files do not notice."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headrace.testing import full_disk
from headrace.testing.cluster_settings import ClusterError
from headrace.testing.in_process import TopicError, broker
from headrace.testing.in_process_cluster import InProcessCluster


def write(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(fd, b"tea", 0)
        os.write(fd, b"tea")
    finally:
        os.close(fd)


def test_only_files_below_the_directory_are_refused(tmp_path: Path) -> None:
    disk, beside = tmp_path / "disk", tmp_path / "disk-2"
    disk.mkdir()
    beside.mkdir()
    untouched = os.pwrite, os.write
    full_disk.fill(disk)
    full_disk.fill(disk)
    try:
        assert full_disk.is_full(disk) and not full_disk.is_full(beside)
        write(beside / "orders.log")
        with pytest.raises(OSError, match="No space left") as refused:
            write(disk / "orders.log")
        assert refused.value.errno == errno.ENOSPC
        full_disk.make_room(beside)  # it was never full
        assert full_disk.is_full(disk)
    finally:
        full_disk.make_room(disk)
    write(disk / "orders.log")
    assert (os.pwrite, os.write) == untouched, "no test pays for a disk that is not full"


def test_a_broker_that_ends_leaves_no_full_disk_behind() -> None:
    with broker() as running:
        running.disk_full()
        with pytest.raises(TopicError, match="No space left"):
            running.create_topic("orders")
        running.heal()
        running.create_topic("orders")
        running.disk_full()
    assert not full_disk.is_full(running.data_dir)


def test_the_broker_of_a_full_disk_must_run(tmp_path: Path) -> None:
    one = InProcessCluster(1, {}, tmp_path)
    try:
        with pytest.raises(ClusterError, match="broker 4 does not run: brokers 1 do"):
            one.disk_full(4)
    finally:
        one.stop()
