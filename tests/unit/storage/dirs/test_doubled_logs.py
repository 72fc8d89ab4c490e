"""Two directories have a log of one partition: one was missing for a time, or somebody copied a log.

The log with more of the partition's history serves, and the other one becomes a stray. No start loses a record.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.records.reader import read_records
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.dirs.unopened_log import count_records
from headrace.storage.log import Log
from tests.support.logs import NOW_MS, a_batch, append, open_dirs, read_all, read_batches

KEY = TopicPartition("orders", 0)
CURRENT, OLDER = uuid.UUID(int=5 << 90), uuid.UUID(int=4 << 90)


def write(home: Path, *epochs: int, topic_id: uuid.UUID = CURRENT, start: int = 0) -> None:
    """A log with one batch of three records for each epoch."""
    dirs = open_dirs(home)
    log = dirs.create(*KEY, topic_id)
    log.make_files()
    if start:
        log.truncate_fully_and_start_at(start)
    for epoch in epochs:
        append(log, a_batch(3, value=b"%d of %s" % (epoch, home.name.encode())), epoch=epoch)
    dirs.close()


def start(tmp_path: Path, *, topic_id: uuid.UUID | None = CURRENT) -> LogDirs:
    return open_dirs(tmp_path / "a", tmp_path / "b", now_ms=NOW_MS, topic_id_of=lambda topic: topic_id)


def serving(dirs: LogDirs) -> Log:
    log = dirs.log(*KEY)
    assert log is not None
    return log


# The epochs of the batches of both logs, and which log serves.
@pytest.mark.parametrize(
    ("a", "b", "serves"),
    [
        ((1, 2), (1,), "a"),
        ((1,), (1, 2), "b"),
        ((1, 2), (1, 2), "a"),
        ((1,), (), "a"),
        ((), (1,), "b"),
        ((), (), "a"),
        ((1, 1, 1), (1, 3), "b"),  # the last batches of `a` were never committed, or an unclean election dropped them
        ((4,), (1, 1, 2), "a"),  # it began empty after an unclean election
        ((1, 1), (1, 1, 1), "b"),
    ],
)
def test_the_log_with_more_history_serves(tmp_path: Path, a: tuple[int, ...], b: tuple[int, ...], serves: str) -> None:
    write(tmp_path / "a", *a)
    write(tmp_path / "b", *b)
    for _ in range(2):
        dirs = start(tmp_path)
        log, expected = serving(dirs), a if serves == "a" else b
        assert log.directory.parent.name == serves
        epochs = [batch.partition_leader_epoch for batch in read_batches(log)]
        assert epochs == list(expected) and len(read_all(log)) == 3 * len(expected)
        (stray,) = dirs.strays()
        assert stray.path.parent.name != serves
        assert count_records(stray.path) == 3 * len(b if serves == "a" else a)
        assert stray.note is not None and "orders-0 has" in stray.note.reason
        dirs.close()


def test_a_log_that_was_fetched_again_from_a_later_start_serves(tmp_path: Path) -> None:
    """The leader had deleted the old records meanwhile."""
    write(tmp_path / "a", 1)
    write(tmp_path / "b", 2, start=100)
    dirs = start(tmp_path)
    assert (serving(dirs).log_start_offset, serving(dirs).log_end_offset) == (100, 103)
    assert [count_records(stray.path) for stray in dirs.strays()] == [3]
    dirs.close()


@pytest.mark.parametrize("later", ["a", "b"])
def test_a_log_that_began_empty_under_a_later_leader_serves(tmp_path: Path, later: str) -> None:
    """Retention had deleted the first records of the log that returns, so its offsets are higher."""
    write(tmp_path / later, 4)
    write(tmp_path / ("b" if later == "a" else "a"), 1, 1, 2, start=100)
    dirs = start(tmp_path)
    assert serving(dirs).directory.parent.name == later and len(read_all(serving(dirs))) == 3
    assert [count_records(stray.path) for stray in dirs.strays()] == [9]
    dirs.close()


@pytest.mark.parametrize("last", ["a", "b"])
@pytest.mark.parametrize("was_killed", [True, False])
def test_of_two_equal_logs_the_one_used_last_serves(tmp_path: Path, last: str, was_killed: bool) -> None:
    """The other directory counts as an old copy, and the replica in it would not be elected."""
    for name in ("a", "b"):
        write(tmp_path / name, 1)
        open_dirs(tmp_path / name).close(broker_epoch=7 if name == last else 6, clean=not (name == last and was_killed))
    dirs = start(tmp_path)
    assert serving(dirs).directory.parent.name == last
    dirs.close()


@pytest.mark.parametrize("owner", ["a", "b"])
def test_the_log_of_the_present_topic_serves(tmp_path: Path, owner: str) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, *((1,) if name == owner else (5, 6)), topic_id=CURRENT if name == owner else OLDER)
    dirs = start(tmp_path)
    assert serving(dirs).directory.parent.name == owner and serving(dirs).topic_id == CURRENT
    (stray,) = dirs.strays()
    assert stray.topic_id == OLDER and count_records(stray.path) == 6
    dirs.close()


def test_logs_of_a_topic_that_the_cluster_does_not_have(tmp_path: Path) -> None:
    """The broker sets the other one aside, too, when it has the cluster's image."""
    write(tmp_path / "a", 1)
    write(tmp_path / "b", 2, topic_id=OLDER)
    dirs = start(tmp_path, topic_id=None)
    assert [count_records(stray.path) for stray in dirs.strays()] == [3]
    dirs.close()


def test_a_person_decides_between_logs_of_the_same_leader(tmp_path: Path) -> None:
    """The logs do not tell which one is right: somebody changed a file."""
    write(tmp_path / "a", 1, 3)
    write(tmp_path / "b", 2, 2, 3)
    with pytest.raises(StorageFault, match="keep one of them, and move the other out of the log directories"):
        start(tmp_path)
    assert [count_records(tmp_path / name / "orders-0") for name in ("a", "b")] == [6, 9]


def test_directory_that_cannot_be_renamed_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", 1, 2)
    write(tmp_path / "b", 1)

    def read_only(self: Path, target: Path) -> Path:
        raise OSError(30, "Read-only file system", str(self))

    with monkeypatch.context() as failing:
        failing.setattr(Path, "rename", read_only)
        with pytest.raises(StorageFault, match=r"b/orders-0 cannot be set aside: .*Read-only file system"):
            start(tmp_path)
    dirs = start(tmp_path)
    assert [record for batch in read_batches(serving(dirs)) for record in read_records(batch)]
    dirs.close()
