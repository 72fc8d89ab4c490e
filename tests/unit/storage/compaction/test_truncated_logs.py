"""A key that is deleted after a truncation stays deleted: the new records are below the offset up to which the log was
clean, and a round must know it after a stop, a crash and a move."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.compaction.job import Cleaned
from headrace.storage.compaction.rounds import CleanerSettings, CompactionRounds
from headrace.storage.dirs.checkpoints import CLEANER_FILE, read_offsets
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log
from tests.support.compacted_logs import COMPACT, HOUR_MS, latest, put, visible
from tests.support.full_writes import FullWrites
from tests.support.logs import NOW_MS, directory_in_memory, open_dirs

KEY = TopicPartition("orders", 0)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


async def inline(work: Callable[[], Cleaned]) -> Cleaned:
    return work()


def opened(*paths: Path) -> tuple[LogDirs, CompactionRounds, Log]:
    dirs = open_dirs(*paths, config=COMPACT)
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    log = dirs.create("orders", 0)
    log.advance_high_watermark(log.log_end_offset)
    return dirs, rounds, log


def compacted(*paths: Path) -> tuple[LogDirs, CompactionRounds, Log]:
    """A log that is clean up to offset 10 and ends at 11."""
    dirs, rounds, log = opened(*paths)
    put(log, ("deleted later", "old"))
    for number in range(9):
        put(log, (f"x{number}", "1"))
    log.roll()
    put(log, ("y", "1"))
    assert asyncio.run(rounds.run_one(NOW_MS)) is not None
    assert read_offsets(dirs.directory_of(log).path / CLEANER_FILE) == {KEY: 10}
    return dirs, rounds, log


def grow_again(log: Log) -> None:
    """The leader of an unclean election writes other records, among them the deletion."""
    assert put(log, ("deleted later", None)) == 5
    for number in range(9):
        put(log, (f"z{number}", "1"))
    log.roll()
    put(log, ("w", "1"))


def assert_key_stays_deleted(rounds: CompactionRounds, log: Log) -> None:
    for number in range(4):
        while asyncio.run(rounds.run_one(NOW_MS + number * (HOUR_MS + 1))) is not None:
            pass
        assert b"deleted later" not in latest(visible(log)), number
        put(log, ("w", str(number)))
        log.roll()
    assert latest(visible(log)).keys() >= {b"x0", b"z8", b"w"}


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "crash"])
def test_stop_before_the_next_round(tmp_path: Path, clean: bool) -> None:
    dirs, _, log = compacted(tmp_path)
    log.truncate_to(5)
    assert read_offsets(tmp_path / CLEANER_FILE) == {KEY: 5}
    grow_again(log)
    dirs.close(clean=clean)
    dirs, rounds, log = opened(tmp_path)
    assert_key_stays_deleted(rounds, log)
    dirs.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "crash"])
def test_truncation_during_a_round(tmp_path: Path, clean: bool) -> None:
    dirs, _, log = compacted(tmp_path)
    log.roll()

    async def slow(work: Callable[[], Cleaned]) -> Cleaned:
        cleaned = work()
        log.truncate_to(5)
        grow_again(log)
        return cleaned

    assert asyncio.run(CompactionRounds(dirs, CleanerSettings, slow).run_one(NOW_MS)) is None
    assert read_offsets(tmp_path / CLEANER_FILE) == {KEY: 5}
    dirs.close(clean=clean)
    dirs, rounds, log = opened(tmp_path)
    assert_key_stays_deleted(rounds, log)
    dirs.close()


def copy(log: Log, future: Log) -> None:
    while (piece := log.read(future.log_end_offset, 1 << 20)) is not None:
        if future.log_end_offset in log.segments.base_offsets:
            future.roll()
        future.append_as_follower(os.pread(piece.file.fileno(), piece.length, piece.position))


def move(dirs: LogDirs, log: Log, meanwhile: Callable[[Log], None]) -> Log:
    source = dirs.directory_of(log)
    target = next(directory for directory in dirs.directories if directory is not source)
    future = dirs.begin_move(KEY, target, now_ms=NOW_MS).log
    meanwhile(future)
    copy(log, future)
    return dirs.finish_move(KEY, now_ms=NOW_MS)


@pytest.mark.parametrize("copied", [False, True], ids=["before the copy", "after the copy"])
@pytest.mark.parametrize("restarts", [False, True])
def test_truncation_during_a_move_to_another_directory(tmp_path: Path, restarts: bool, copied: bool) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    dirs, rounds, log = compacted(*paths)

    def meanwhile(future: Log) -> None:
        if copied:
            copy(log, future)
        log.truncate_to(5)
        assert asyncio.run(rounds.run_one(NOW_MS)) is None
        grow_again(log)
        future.truncate_to(5)

    log = move(dirs, log, meanwhile)
    if restarts:
        dirs.close()
        dirs, rounds, log = opened(*paths)
    assert_key_stays_deleted(rounds, log)
    dirs.close()


def test_truncation_after_a_move(tmp_path: Path) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    dirs, _, log = compacted(*paths)
    log = move(dirs, log, lambda future: None)
    log.truncate_to(5)
    grow_again(log)
    dirs.close(clean=False)
    dirs, rounds, log = opened(*paths)
    assert_key_stays_deleted(rounds, log)
    dirs.close()


def test_a_moved_log_is_as_clean_as_before(tmp_path: Path) -> None:
    """Also if its first records were deleted. Its copy began empty at the log start."""
    dirs, rounds, log = compacted(tmp_path / "a", tmp_path / "b")
    log.advance_log_start(3)
    before = dirs.directory_of(log)
    log = move(dirs, log, lambda future: None)
    assert asyncio.run(rounds.run_one(NOW_MS)) is None, "nothing is dirty"
    assert read_offsets(dirs.directory_of(log).path / CLEANER_FILE) == {KEY: 10}
    assert read_offsets(before.path / CLEANER_FILE) == {}
    dirs.close()


def test_crash_that_shortens_the_log_and_a_second_one(tmp_path: Path) -> None:
    """The page cache is lost, and the log grows again before the first round."""
    dirs, _, log = compacted(tmp_path)
    cut = log.segments.all[0]
    position = cut.position_of(5)
    assert position is not None
    dirs.close(clean=False)
    os.truncate(cut.path, position)
    for path in log.directory.glob(f"{10:020d}.*"):
        path.unlink()
    dirs, _, log = opened(tmp_path)
    grow_again(log)
    dirs.close(clean=False)
    dirs, rounds, log = opened(tmp_path)
    assert_key_stays_deleted(rounds, log)
    dirs.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_truncation_on_a_full_disk(tmp_path: Path, restarts: bool) -> None:
    """Without room for the file it is removed: then the whole log is dirty."""
    for first in range(1, 100):
        directory = tmp_path / str(first)
        dirs, rounds, log = compacted(directory)
        with FullWrites(directory, first) as writes:
            try:
                log.truncate_to(5)
            except StorageFault:
                assert CLEANER_FILE not in writes.failed[0]
        if not writes.failed:
            assert first > 1
            dirs.close()
            return
        assert (directory / CLEANER_FILE).exists() == (CLEANER_FILE not in writes.failed[0])
        log.truncate_to(5)
        assert log.log_end_offset == 5 and not dirs.offline
        grow_again(log)
        if restarts:
            dirs.close(clean=False)
            dirs, rounds, log = opened(directory)
        assert_key_stays_deleted(rounds, log)
        assert KEY in read_offsets(directory / CLEANER_FILE), "it is written when there is room"
        dirs.close()
    raise AssertionError("a truncation has fewer than a hundred writes")
