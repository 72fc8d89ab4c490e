"""Compaction of logs whose offsets have gaps, as of a new replica of a compacted log: rounds end, and each key has its
last value."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headrace.records.builder import Record, build_batch
from headrace.storage.compaction.job import Cleaned
from headrace.storage.compaction.rounds import CleanerSettings, CompactionRounds
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from tests.support.compacted_logs import COMPACT, HOUR_MS, end, visible
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_dirs, read_all

DAY_MS = 24 * HOUR_MS
PRODUCER = 7
# (offset, key): the value is the offset. A segment is a list of batches of one record.
Batches = Sequence[tuple[int, str]]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


async def inline(work: Callable[[], Cleaned]) -> Cleaned:
    return work()


def follow(log: Log, offset: int, key: str, *, now_ms: int = NOW_MS, in_transaction: bool = False) -> None:
    """A batch as a leader sends it."""
    data = build_batch(
        [Record(key.encode(), b"%d" % offset, timestamp_ms=now_ms)],
        base_offset=offset,
        leader_epoch=0,
        producer_id=PRODUCER if in_transaction else -1,
        producer_epoch=0 if in_transaction else -1,
        base_sequence=0 if in_transaction else -1,
        transactional=in_transaction,
    )
    log.append_as_follower(data)
    log.advance_high_watermark(log.log_end_offset)


def rounds_until_none_is_due(rounds: CompactionRounds, now_ms: int = NOW_MS) -> int:
    """As housekeeping does it: the next round begins at once."""

    async def go() -> int:
        for count in range(20):
            if await rounds.run_one(now_ms) is None:
                return count
        raise AssertionError("there is always a log that is due")

    return asyncio.run(go())


def last_of_each_key(before: list[tuple[int, bytes, bytes | None]]) -> list[tuple[int, bytes, bytes | None]]:
    return sorted({key: (offset, key, value) for offset, key, value in before}.values())


def test_new_replica_whose_active_segment_begins_after_a_gap(tmp_path: Path) -> None:
    """With the settings of a new topic. The segments roll by time."""
    dirs = open_dirs(tmp_path, config=LogConfig(cleanup_policy=frozenset({"compact"})))
    log = dirs.create("orders", 0)
    for number in range(4):
        follow(log, number * 100, f"k{number}", now_ms=NOW_MS - (30 - number * 5) * DAY_MS)
    assert [segment.base_offset for segment in log.segments.all] == [0, 200]
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    assert rounds_until_none_is_due(rounds) == 1
    assert [offset for offset, _, _ in visible(log)] == [0, 100, 200, 300]
    dirs.close()


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param([[(0, "a"), (1, "a")], [(50, "b")]], id="before the active segment"),
        pytest.param([[(0, "a"), (1, "b")], [(20, "a"), (21, "c")], [(60, "b")], [(90, "d")]], id="between segments"),
        pytest.param([[(0, "a"), (30, "b"), (60, "a")], [(61, "b")]], id="inside a segment"),
        pytest.param([[(40, "a"), (41, "a")], [(42, "b")]], id="at the start"),
        pytest.param([[(0, "a")], [(10, "a")], [(20, "a")], [(30, "b")], [(31, "b")]], id="emptied segments"),
        pytest.param([[(0, "a"), (1, "b")], [(2, "a")]], id="no gap"),
    ],
)
@pytest.mark.parametrize("segment_bytes", [100, 1 << 20], ids=["segments stay", "segments are grouped"])
def test_rounds_end_with_the_last_value_of_each_key(
    tmp_path: Path, segments: Sequence[Batches], segment_bytes: int
) -> None:
    dirs = open_dirs(tmp_path, config=COMPACT)
    log = dirs.create("orders", 0)
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    for number, batches in enumerate(segments):
        if number:
            log.roll(batches[0][0])
        for offset, key in batches:
            follow(log, offset, key)
    log.update_config(dataclasses.replace(COMPACT, segment_bytes=segment_bytes))
    # Later rounds find the gaps that earlier ones have made.
    for number in range(3):
        active = log.active_segment.base_offset
        before = visible(log)
        assert rounds_until_none_is_due(rounds) == 1
        cleaned = [one for one in before if one[0] < active]
        assert visible(log) == last_of_each_key(cleaned) + before[len(cleaned) :], number
        log.roll(log.log_end_offset + 1000)
        follow(log, log.active_segment.base_offset, "a")
    dirs.close()


def test_rounds_end_before_an_open_transaction(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path, config=COMPACT)
    log = dirs.create("orders", 0)
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    for offset, key in [(0, "a"), (20, "a")]:
        follow(log, offset, key)
    follow(log, 40, "a", in_transaction=True)
    follow(log, 60, "b")
    log.roll(100)
    follow(log, 100, "b")
    assert rounds_until_none_is_due(rounds) == 1
    assert log.last_stable_offset == 40 and [offset for offset, _, _ in visible(log)] == [20]
    end(log, PRODUCER, commit=True)
    assert rounds_until_none_is_due(rounds) == 1
    assert [offset for offset, _, _ in visible(log)] == [40, 60, 100], "the segment of 100 is active"
    dirs.close()


def test_rounds_end_before_records_that_are_too_young(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path, config=dataclasses.replace(COMPACT, min_compaction_lag_ms=HOUR_MS))
    log = dirs.create("orders", 0)
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    for base, age_ms in [(0, 2 * HOUR_MS), (100, 0), (200, 0)]:
        if base:
            log.roll(base)
        follow(log, base, "a", now_ms=NOW_MS - age_ms)
        follow(log, base + 20, "a", now_ms=NOW_MS - age_ms)
    assert rounds_until_none_is_due(rounds) == 1
    assert [offset for offset, _, _ in visible(log)] == [20, 100, 120, 200, 220]
    assert rounds_until_none_is_due(rounds, NOW_MS + 2 * HOUR_MS) == 1
    assert [offset for offset, _, _ in visible(log)] == [120, 200, 220]
    dirs.close()


def test_a_log_that_cannot_be_cleaned_yet_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """The high watermark is inside of its first dirty batch."""
    dirs = open_dirs(tmp_path, config=COMPACT)
    waiting, other = dirs.create("orders", 0), dirs.create("orders", 1)
    for log in (waiting, other):
        for _ in range(2):
            append(log, a_batch(10))
        log.roll()
    rounds = CompactionRounds(dirs, CleanerSettings, inline)
    waiting.advance_high_watermark(5)
    other.advance_high_watermark(15)
    assert rounds_until_none_is_due(rounds) == 3, "the first batch of the other log is cleaned"
    assert rounds_until_none_is_due(rounds) == 0, "also after the interval of housekeeping"
    for log in (waiting, other):
        assert len(read_all(log)) == (20 if log is waiting else 11)
        log.advance_high_watermark(20)
    assert rounds_until_none_is_due(rounds, NOW_MS + HOUR_MS) == 2
    for log in (waiting, other):
        assert [offset for offset, _, _ in visible(log)] == [19]
    dirs.close()
