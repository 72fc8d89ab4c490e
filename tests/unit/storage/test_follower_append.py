"""What a leader sends becomes the follower's log, also if the leader's log starts inside a batch."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from headrace.kernel.errors import CorruptBatch, StorageFault
from headrace.storage.log import Log
from headrace.storage.recovery.recovery import PartitionCheckpoints
from headrace.storage.segment.segment import Segment
from tests.support.logs import a_batch, append, open_at, read_all, read_batches

# The leader deleted the records below this offset, in a batch of ten.
START = 5


def a_leader(directory: Path, start: int = START) -> Log:
    log = open_at(directory)
    append(log, a_batch(10, producer=(7, 0, 0)), epoch=3)
    append(log, a_batch(2), epoch=3)
    log.advance_high_watermark(12)
    log.advance_log_start(start)
    return log


def an_empty_replica(directory: Path) -> Log:
    """It has asked the leader for its first offset."""
    log = open_at(directory)
    log.truncate_fully_and_start_at(START)
    return log


def sent_by(leader: Log, start: int = START) -> bytes:
    return b"".join(bytes(batch.data) for batch in read_batches(leader, start))


def test_an_empty_replica_begins_with_the_batch_that_the_leaders_log_starts_in(tmp_path: Path) -> None:
    leader = a_leader(tmp_path / "leader" / "orders-0")
    log = an_empty_replica(tmp_path / "orders-0")
    assert log.append_as_follower(sent_by(leader)).last_offset == 11
    log.advance_high_watermark(leader.high_watermark)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (START, 12, 12)
    assert log.leader_epochs.entries == leader.leader_epochs.entries == [(3, START)]
    assert log.producers.entries[7].last_sequence == 9
    assert sent_by(log) == sent_by(leader)
    log.close()
    again = open_at(tmp_path / "orders-0", clean=True, marks=PartitionCheckpoints(12, START, 12))
    assert (again.log_start_offset, again.log_end_offset) == (START, 12) and again.leader_epochs.entries == [(3, START)]


def test_only_the_first_batch_of_an_empty_log_may_begin_before_its_start(tmp_path: Path) -> None:
    leader = a_leader(tmp_path / "leader" / "orders-0", start=0)
    first, second = (bytes(batch.data) for batch in read_batches(leader, 0))
    log = an_empty_replica(tmp_path / "orders-0")
    log.append_as_follower(first + second)
    for again in (first, second):
        with pytest.raises(CorruptBatch, match="ends at 12"):
            log.append_as_follower(again)
    beyond = open_at(tmp_path / "beyond" / "orders-0")
    beyond.truncate_fully_and_start_at(12)
    with pytest.raises(CorruptBatch):
        beyond.append_as_follower(second)  # it ends below the start


@pytest.mark.parametrize("known_start", [0, START])
def test_a_crash_at_any_step_leaves_a_replica_that_can_follow(tmp_path: Path, known_start: int) -> None:
    """`known_start`: the checkpoint of log starts may be older than the new start."""
    leader = a_leader(tmp_path / "leader" / "orders-0")
    log, images = an_empty_replica(tmp_path / "orders-0"), list[Path]()

    def film() -> None:
        images.append(tmp_path / f"image-{len(images)}" / "orders-0")
        shutil.copytree(tmp_path / "orders-0", images[-1])

    real_append = Segment.append_many
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            log.segments, "cut_all", lambda *a: (film(), type(log.segments).cut_all(log.segments, *a), film())
        )
        patched.setattr(Segment, "append_many", lambda *a: (real_append(*a), film()))
        log.append_as_follower(sent_by(leader))
    assert len(images) == 3
    for image in images:
        marks = PartitionCheckpoints(log_start_offset=known_start, high_watermark=START)
        again = open_at(image, marks=marks)
        if again.log_end_offset < START:
            again.truncate_fully_and_start_at(START)  # the leader answers OFFSET_OUT_OF_RANGE
        if again.log_end_offset == START:
            again.append_as_follower(sent_by(leader))
        again.advance_high_watermark(12)
        again.advance_log_start(START)
        assert (again.log_start_offset, again.log_end_offset) == (START, 12), image
        assert [record.offset for record in read_all(again)][START:] == list(range(START, 12))


def test_a_full_disk_leaves_an_empty_replica_that_tries_again(tmp_path: Path) -> None:
    leader = a_leader(tmp_path / "leader" / "orders-0")
    log = an_empty_replica(tmp_path / "orders-0")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched, pytest.raises(StorageFault, match="no space"):
        patched.setattr(os, "pwrite", full)
        log.append_as_follower(sent_by(leader))
    assert (log.log_start_offset, log.log_end_offset) == (START, START)
    log.append_as_follower(sent_by(leader))
    assert (log.log_start_offset, log.log_end_offset) == (START, 12)
