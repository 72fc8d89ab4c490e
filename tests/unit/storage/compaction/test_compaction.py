"""Compaction keeps the last value of every key, changes no offset and no order, and survives a crash at any step."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.records.batch import BatchView
from headrace.records.compression import Codec
from headrace.records.reader import read_records
from headrace.storage.compaction import offset_map
from headrace.storage.core.compaction import SegmentFacts, assess, group
from headrace.storage.dirs.log_dir import known_aborted
from headrace.storage.files import CLEANED_SUFFIX, SWAP_SUFFIX
from headrace.storage.recovery.recovery import PartitionCheckpoints
from tests.support.compacted_logs import COMPACT, HOUR_MS, clean, end, latest, put, visible
from tests.support.crashing_files import FileCalls, Killed
from tests.support.logs import NOW_MS, directory_in_memory, open_at, read_batches


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: rounds sync often, and no test here depends on durability."""
    with directory_in_memory() as directory:
        yield directory


def test_compaction_keeps_the_last_value_of_a_key_at_its_offset(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "1"), ("b", "1"), ("a", "2"))
    put(log, ("b", "2"), ("c", "1"))
    log.roll()
    put(log, ("a", "active segment: untouched"))
    clean(log)
    assert visible(log) == [
        (2, b"a", b"2"),
        (3, b"b", b"2"),
        (4, b"c", b"1"),
        (5, b"a", b"active segment: untouched"),
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_compaction_keeps_the_codec_of_a_batch(tmp_path: Path, codec: Codec) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, *[("same", str(n)) for n in range(50)], ("other", "x"), codec=codec)
    log.roll()
    clean(log)
    assert visible(log) == [(49, b"same", b"49"), (50, b"other", b"x")]
    batch: BatchView = read_batches(log)[0]
    batch.check_crc()
    assert batch.codec is codec
    assert batch.base_offset == 0, "a batch that loses records keeps its first offset"


def test_tombstone_stays_for_its_delay_and_until_every_replica_has_it(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "1"))
    put(log, ("a", None))
    log.roll()
    clean(log, now_ms=NOW_MS)
    assert visible(log) == [(1, b"a", None)], "readers must still learn of the deletion"
    assert read_batches(log)[0].delete_horizon_ms == NOW_MS + HOUR_MS
    put(log, ("b", "1"))
    log.roll()
    clean(log, now_ms=NOW_MS + HOUR_MS - 1)
    assert (1, b"a", None) in visible(log)
    put(log, ("b", "2"))
    log.roll()
    clean(log, now_ms=NOW_MS + 2 * HOUR_MS, replicated=1)
    assert (1, b"a", None) in visible(log), "a replica that has not seen the tombstone would keep the key for ever"
    put(log, ("b", "3"))
    log.roll()
    clean(log, now_ms=NOW_MS + 2 * HOUR_MS)
    assert visible(log) == [(4, b"b", b"3")]


def test_a_tombstone_that_the_map_did_not_reach_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the older value, which the map has not reached either, would come back."""
    monkeypatch.setattr(offset_map, "_SMALLEST_CAPACITY", 3)
    log = open_at(tmp_path / "orders-0", replace(COMPACT, delete_retention_ms=0))
    put(log, ("deleted", "1"))
    for key in "abcdef":
        put(log, (key, "1"))
    put(log, ("deleted", None))
    log.roll()
    checkpoint: int | None = None
    while checkpoint != 8:
        checkpoint = clean(log, checkpoint=checkpoint, memory_bytes=0)
        assert b"deleted" not in latest(visible(log)), f"compacted up to {checkpoint}"
    assert latest(visible(log)) == dict.fromkeys([b"a", b"b", b"c", b"d", b"e", b"f"], b"1")


def test_a_round_changes_nothing_of_an_open_transaction_and_behind_it(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", replace(COMPACT, delete_retention_ms=0))
    put(log, ("a", "1"), ("a", "2"))
    put(log, ("b", None), producer=(7, 0, 0))
    put(log, ("c", None))
    put(log, ("d", "aborted"), producer=(8, 0, 0))
    end(log, 8, commit=False)
    log.roll()
    behind = [bytes(batch.data) for batch in read_batches(log)][1:]
    for _ in range(3):
        clean(log)
    assert [bytes(batch.data) for batch in read_batches(log)][1:] == behind


def test_timestamps_survive_the_delete_horizon(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", None), ("b", "1"))
    log.roll()
    clean(log)
    assert [record.timestamp_ms for record in read_records(read_batches(log)[0])] == [NOW_MS, NOW_MS]


def test_aborted_records_are_removed_and_do_not_replace_committed_ones(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "committed"))
    put(log, ("a", "aborted"), producer=(7, 0, 0))
    end(log, 7, commit=False)
    put(log, ("b", "in a transaction"), producer=(8, 0, 0))
    end(log, 8, commit=True)
    log.roll()
    clean(log)
    assert visible(log) == [(0, b"a", b"committed"), (3, b"b", b"in a transaction")]
    assert all(
        r.value != b"aborted" for batch in read_batches(log) if not batch.is_control for r in read_records(batch)
    )


def test_open_transaction_is_not_compacted(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "1"))
    put(log, ("a", "open"), producer=(7, 0, 0))
    log.roll()
    assert clean(log) == 1
    end(log, 7, commit=False)
    assert visible(log) == [(0, b"a", b"1")]


def test_last_batch_of_a_producer_is_kept_empty_with_its_sequence(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "1"), producer=(7, 0, 0))
    end(log, 7, commit=True)
    put(log, ("a", "2"))
    log.roll()
    clean(log)
    log.close(clean=False)
    for snapshot in (tmp_path / "orders-0").glob("*.snapshot"):
        snapshot.unlink()
    reopened = open_at(tmp_path / "orders-0", COMPACT)
    assert reopened.producers.entries[7].last_sequence == 0


def test_full_offset_map_ends_the_round_and_the_next_round_continues(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    for n in range(3000):
        put(log, (f"k{n % 1500}", str(n)))
    log.roll()
    first = clean(log, memory_bytes=0)
    assert 0 < first < 3000
    clean(log, checkpoint=first)
    before = latest(visible(log))
    assert before == {f"k{n % 1500}".encode(): str(n).encode() for n in range(3000)}


def test_small_segments_are_grouped() -> None:
    facts = [SegmentFacts(base, base + 10, 100, 0) for base in range(0, 60, 10)]
    assert [[f.base_offset for f in g] for g in group(facts, segment_bytes=250, index_bytes=1000)] == [
        [0, 10],
        [20, 30],
        [40, 50],
    ]


def test_compaction_lag_delays_new_segments_and_makes_old_ones_overdue() -> None:
    facts = [
        SegmentFacts(0, 10, 100, NOW_MS - 10_000),
        SegmentFacts(10, 20, 100, NOW_MS - 100),
        SegmentFacts(20, 20, 0, -1),
    ]

    def dirt(**lags: int) -> object:
        lags = {"min_lag_ms": 0, "max_lag_ms": 1 << 60} | lags
        return assess(facts, log_start=0, last_stable=20, checkpoint=None, now_ms=NOW_MS, **lags)

    assert dirt().first_uncleanable_offset == 20  # type: ignore[attr-defined]
    assert dirt(min_lag_ms=1000).first_uncleanable_offset == 10  # type: ignore[attr-defined]
    assert dirt(max_lag_ms=5000).overdue  # type: ignore[attr-defined]
    assert not dirt(max_lag_ms=50_000).overdue  # type: ignore[attr-defined]


def test_crash_at_any_step_of_the_swap_leaves_the_old_or_the_new_log(tmp_path: Path) -> None:
    """The directory is copied after every rename; every copy opens to the same state."""
    directory = tmp_path / "orders-0"
    log = open_at(directory, COMPACT)
    for n in range(40):
        put(log, (f"k{n % 5}", str(n)))
        if n % 10 == 4:
            put(log, (f"k{n % 3}", "never"), producer=(77, n // 10, 0))
        if n % 10 == 6:
            end(log, 77, commit=False, epoch=n // 10)
        if n % 10 == 9:
            log.roll()
    log.flush()
    expected = latest(visible(log))
    # The checkpoints from before the round: the new segments have other aborted transactions.
    marks = PartitionCheckpoints(recovery_point=48, high_watermark=48, aborted=known_aborted(log))
    assert len(marks.aborted.digests) == 4
    images: list[Path] = []

    real_rename = Path.rename

    def filmed(self: Path, target: Path) -> Path:
        moved = real_rename(self, target)
        image = tmp_path / f"image-{len(images)}" / "orders-0"
        shutil.copytree(directory, image)
        images.append(image)
        return moved

    Path.rename = filmed  # type: ignore[method-assign, assignment]
    try:
        clean(log)
    finally:
        Path.rename = real_rename  # type: ignore[method-assign]
    assert len(images) > 10
    for number, image in enumerate(images):
        # As after a process crash (indexes below the recovery point are trusted), and as without checkpoints.
        reopened = open_at(image, COMPACT, marks=marks if number % 2 else None)
        reopened.advance_high_watermark(reopened.log_end_offset)
        assert latest(visible(reopened)) == expected, image
        assert reopened.log_end_offset == 48
        assert not [path for path in image.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        reopened.close()


def test_crash_at_any_step_of_the_swap_keeps_the_index_of_aborted_transactions(tmp_path: Path) -> None:
    """The new segment has the name of one that had no aborted transaction, and the checkpoint says so."""
    for step in range(100):
        directory = tmp_path / f"step-{step}" / "orders-0"
        log = open_at(directory, COMPACT)
        put(log, ("a", "1"))
        log.roll()
        put(log, ("a", "2"))
        put(log, ("b", "1"), producer=(1, 0, 0))  # still open: this round does not clean what follows
        put(log, ("a", "aborted"), producer=(2, 0, 0))
        end(log, 2, commit=False)
        log.roll()
        put(log, ("c", "1"))
        log.flush()
        marks = PartitionCheckpoints(log.recovery_point, 0, log.high_watermark, known_aborted(log))
        assert list(marks.aborted.digests) == [1]
        calls, is_over = FileCalls(directory, stop_before=step), False
        with contextlib.suppress(Killed), calls:
            clean(log)
            is_over = True
        log.close(clean=False)
        reopened = open_at(directory, COMPACT, marks=marks)
        reopened.advance_high_watermark(reopened.log_end_offset)
        end(reopened, 1, commit=True)
        assert latest(visible(reopened)) == {b"a": b"2", b"b": b"1", b"c": b"1"}, calls.made[-1:]
        reopened.close(clean=False)
        if is_over:
            break
    assert is_over and len(calls.made) > 20
