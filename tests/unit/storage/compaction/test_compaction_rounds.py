"""Compaction rounds while the log changes: new topics, deleted files, flushes and stops during a round."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.kernel.ids import TopicPartition
from headrace.storage.compaction.cleaner import Cleaner
from headrace.storage.compaction.job import Cleaned
from headrace.storage.compaction.rounds import CleanerSettings, CompactionRounds
from headrace.storage.dirs.checkpoints import CLEANER_FILE, read_offsets
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.files import CLEANED_SUFFIX, SWAP_SUFFIX
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from tests.support.clock import PATIENCE_S
from tests.support.compacted_logs import COMPACT, HOUR_MS, latest, put, visible
from tests.support.full_writes import FullWrites
from tests.support.logs import NOW_MS, directory_in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: rounds sync often, and no test here depends on durability."""
    with directory_in_memory() as directory:
        yield directory


async def thread(work: Callable[[], Cleaned]) -> Cleaned:
    return await asyncio.to_thread(work)


def dirty_dirs(directory: Path, config: LogConfig = COMPACT) -> tuple[LogDirs, Log]:
    """A log with three sealed, dirty segments."""
    dirs = LogDirs.open(StorageSettings((directory,), node_id=1), config_of=lambda topic: config, now_ms=NOW_MS)
    log = dirs.create("orders", 0)
    for n in range(30):
        put(log, (f"k{n % 3}", str(n)))
        if n % 10 == 9:
            log.roll()
    return dirs, log


def test_round_does_not_touch_a_new_topic_of_the_same_name(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, _ = dirty_dirs(tmp_path)

        async def slow(work: Callable[[], Cleaned]) -> Cleaned:
            cleaned = await thread(work)
            dirs.delete("orders", 0, now_ms=NOW_MS)
            put(dirs.create("orders", 0), ("new", "kept"))
            return cleaned

        rounds = CompactionRounds(dirs, CleanerSettings, slow)
        assert await rounds.run_one(NOW_MS) is None
        fresh = dirs.log("orders", 0)
        assert fresh is not None and visible(fresh) == [(0, b"new", b"kept")] and fresh.active_segment.path.exists()
        assert not [path for path in fresh.directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        dirs.close()

    asyncio.run(go())


def test_round_uses_the_settings_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_with: list[tuple[int, float | None]] = []

    class Recorded(Cleaner):
        def __init__(self, memory_bytes: int, bytes_per_second: float | None) -> None:
            begun_with.append((memory_bytes, bytes_per_second))
            super().__init__(memory_bytes, bytes_per_second)

    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)
        settings = CleanerSettings(1 << 20)
        rounds = CompactionRounds(dirs, lambda: settings, thread)
        await rounds.run_one(NOW_MS)
        settings = CleanerSettings(1 << 21, 1e9)
        for n in range(30):
            put(log, (f"k{n % 3}", str(n)))
        log.roll()
        await rounds.run_one(NOW_MS)
        dirs.close()

    monkeypatch.setattr("headrace.storage.compaction.cleaner.Cleaner", Recorded)
    asyncio.run(go())
    assert begun_with == [(1 << 20, None), (1 << 21, 1e9)]


def test_log_whose_files_were_deleted_during_a_round_is_cleaned_by_the_next(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)
        meddling = True

        async def slow(work: Callable[[], Cleaned]) -> Cleaned:
            if meddling:
                log.advance_log_start(10)
                dirs.delete_old_segments(NOW_MS)
                dirs.purge_deletions(NOW_MS + HOUR_MS)
            return await thread(work)

        rounds = CompactionRounds(dirs, CleanerSettings, slow)
        assert await rounds.run_one(NOW_MS) is None
        meddling = False
        assert await rounds.run_one(NOW_MS) is not None, "it was not set aside"
        assert [value for _, _, value in visible(log)] == [b"27", b"28", b"29"]
        dirs.close()

    asyncio.run(go())


def test_round_does_not_bring_back_records_that_were_truncated_meanwhile(tmp_path: Path) -> None:
    """As after an unclean election: the new leader does not have them."""

    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)

        async def slow(work: Callable[[], Cleaned]) -> Cleaned:
            cleaned = await thread(work)
            log.truncate_to(25, now_ms=NOW_MS)
            return cleaned

        rounds = CompactionRounds(dirs, CleanerSettings, slow)
        assert await rounds.run_one(NOW_MS) is None
        assert [value for _, _, value in visible(log)] == [b"%d" % n for n in range(25)]
        assert put(log, ("k0", "new")) == 25 and not list(log.directory.glob("*" + CLEANED_SUFFIX))
        dirs.close()

    asyncio.run(go())


@pytest.mark.parametrize("restarts", [False, True])
def test_records_behind_a_truncation_are_compacted_again(tmp_path: Path, restarts: bool) -> None:
    """They are new, although they are below the checkpoint: a deleted key would else come back."""

    async def go() -> None:
        config = dataclasses.replace(COMPACT, delete_retention_ms=0)
        dirs, log = dirty_dirs(tmp_path, config)
        rounds = CompactionRounds(dirs, CleanerSettings, thread)
        assert await rounds.run_one(NOW_MS) is not None
        log.truncate_to(28, now_ms=NOW_MS)
        if restarts:
            dirs.close()
            dirs = LogDirs.open(StorageSettings((tmp_path,), node_id=1), config_of=lambda topic: config, now_ms=NOW_MS)
            rounds = CompactionRounds(dirs, CleanerSettings, thread)
            found = dirs.log("orders", 0)
            assert found is not None
            log = found
        put(log, ("k0", None))
        for n in range(3):
            put(log, ("k1", str(n)))
            log.roll()
            await rounds.run_one(NOW_MS + n)
            assert b"k0" not in latest(visible(log)), n
        dirs.close()

    asyncio.run(go())


def test_round_that_finds_a_full_disk_at_any_write_is_repeated_when_there_is_room(tmp_path: Path) -> None:
    async def go(first: int) -> bool:
        """Whether a write failed."""
        directory = tmp_path / str(first)
        dirs, log = dirty_dirs(directory)
        before = visible(log)
        rounds = CompactionRounds(dirs, CleanerSettings, thread)
        with FullWrites(directory, first) as writes:
            is_done = await rounds.run_one(NOW_MS) is not None
        assert dirs.offline == [], writes.failed
        if not is_done:
            assert visible(log) == before, writes.failed
            assert not [path for path in log.directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
            assert await rounds.run_one(NOW_MS + 1000) is None, "other logs have their turn"
            assert await rounds.run_one(NOW_MS + 60_000) is not None, writes.failed
        assert [value for _, _, value in visible(log)] == [b"27", b"28", b"29"], writes.failed
        await rounds.run_one(NOW_MS + 120_000)
        assert read_offsets(directory / CLEANER_FILE) == {TopicPartition("orders", 0): 30}, "it is written again"
        dirs.close()
        return bool(writes.failed)

    for first in range(1, 100):
        if not asyncio.run(go(first)):
            assert first > 3, "a round writes a segment, an index and a checkpoint"
            return
    raise AssertionError("a round has fewer than a hundred writes")


def test_stop_ends_a_long_round_and_removes_its_files(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)
        before = visible(log)
        rounds = CompactionRounds(dirs, lambda: CleanerSettings(bytes_per_second=0.01), thread)
        running = asyncio.create_task(rounds.run_one(NOW_MS))
        await asyncio.sleep(0)
        rounds.stop()
        assert await asyncio.wait_for(running, PATIENCE_S) is None
        assert visible(log) == before
        assert not [path for path in log.directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        dirs.close()

    asyncio.run(go())


def test_flush_in_a_thread_tolerates_replaced_and_deleted_segments(tmp_path: Path) -> None:
    """Files are renamed during a flush in a thread; that is no disk fault."""
    config = dataclasses.replace(COMPACT, segment_bytes=400, cleanup_policy=frozenset({"compact", "delete"}))

    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path, config)
        rounds = CompactionRounds(dirs, CleanerSettings, thread)
        stop = threading.Event()

        def flush() -> None:
            while not stop.is_set():
                log.segments.recovery_point = 0
                log.flush()

        flushing = asyncio.create_task(asyncio.to_thread(flush))
        for n in range(60):
            put(log, (f"k{n % 7}", str(n) * 20))
            if n % 6 == 5:
                await rounds.run_one(NOW_MS)
            if n % 20 == 19:
                log.advance_log_start(log.segments.all[1].base_offset)
                dirs.delete_old_segments(NOW_MS)
            await asyncio.sleep(0)
        stop.set()
        await flushing
        assert log.offline_reason is None and not dirs.offline
        assert latest(visible(log)).keys() >= {b"k0", b"k6"}
        dirs.close()

    asyncio.run(go())


def test_rounds_clean_the_dirtiest_log_and_store_the_checkpoint(tmp_path: Path) -> None:
    async def go() -> None:
        places = StorageSettings(directories=(tmp_path / "data",), node_id=1)
        dirs = LogDirs.open(places, config_of=lambda topic: COMPACT, now_ms=NOW_MS)
        few, many = dirs.create("few", 0, None), dirs.create("many", 0, None)
        for n in range(100):
            put(many, (f"k{n % 3}", str(n)))
        put(few, ("a", "1"))
        for log in (few, many):
            log.roll()

        rounds = CompactionRounds(dirs, CleanerSettings, thread)
        while await rounds.run_one(NOW_MS) is not None:
            pass
        assert len(visible(many)) == 3
        text = (tmp_path / "data" / CLEANER_FILE).read_text()
        assert "many 0 100" in text
        assert "few 0 1" in text
        dirs.close()

    asyncio.run(go())


def test_deleted_topic_is_removed_from_the_checkpoint(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, _ = dirty_dirs(tmp_path)
        rounds = CompactionRounds(dirs, CleanerSettings, thread)
        assert await rounds.run_one(NOW_MS) is not None
        file = tmp_path / CLEANER_FILE
        assert read_offsets(file) == {TopicPartition("orders", 0): 30}
        before = file.read_text()
        dirs.delete("orders", 0, now_ms=NOW_MS)
        await asyncio.sleep(0)
        assert read_offsets(file) == {}
        # A crash just before the file was written: the entry belongs to a deleted topic.
        file.write_text(before)
        fresh = CompactionRounds(dirs, CleanerSettings, thread)
        log = dirs.create("orders", 0)
        for n in range(40):
            put(log, (f"k{n % 3}", str(n)))
            if n % 10 == 9:
                log.roll()
        assert await fresh.run_one(NOW_MS) is not None
        # From its first offset, not from 30.
        assert visible(log) == [(37, b"k1", b"37"), (38, b"k2", b"38"), (39, b"k0", b"39")]
        dirs.close()

    asyncio.run(go())
