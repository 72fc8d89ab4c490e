"""Lookups by time give the same result as reading every record."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch import BatchView
from headrace.records.compression import Codec
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.segment import time_lookup
from headrace.storage.segment.batch_scan import BatchPlace
from headrace.storage.segment.segment import Segment
from tests.support.compacted_logs import COMPACT, clean
from tests.support.logs import NOW_MS, a_batch, append, open_at, read_all, read_batches

times = st.lists(st.lists(st.integers(NOW_MS - 60, NOW_MS + 60), min_size=1, max_size=5), min_size=1, max_size=60)


def brute_first(log: Log, timestamp_ms: int) -> tuple[int, int] | None:
    for record in read_all(log):
        if record.offset >= log.log_start_offset and record.timestamp_ms >= timestamp_ms:
            return record.offset, record.timestamp_ms
    return None


def brute_newest(log: Log) -> tuple[int, int] | None:
    records = [record for record in read_all(log) if record.offset >= log.log_start_offset]
    best = max(records, key=lambda record: record.timestamp_ms, default=None)
    return None if best is None else (best.offset, best.timestamp_ms)


@pytest.mark.parametrize("reopen", ["no", "clean", "crash"])
@settings(max_examples=30, deadline=None)
@given(batches=times, interval=st.sampled_from([1, 150, 4096]), data=st.data())
def test_lookup_by_time_equals_reading_every_record(
    tmp_path_factory: pytest.TempPathFactory, reopen: str, batches: list[list[int]], interval: int, data: st.DataObject
) -> None:
    config = LogConfig(segment_bytes=1500, index_interval_bytes=interval, segment_index_bytes=8192)
    log = open_at(tmp_path_factory.mktemp("log"), config)
    for at, timestamps in enumerate(batches):
        append(log, a_batch(len(timestamps), timestamps=timestamps, codec=Codec(at % 5)), epoch=at // 20)
    if reopen != "no":
        log.close(clean=reopen == "clean")
        log = open_at(log.directory, config, clean=reopen == "clean")
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(data.draw(st.integers(0, log.log_end_offset)))
    for timestamp_ms in range(NOW_MS - 61, NOW_MS + 62, 7):
        found = log.offset_for_timestamp(timestamp_ms)
        assert (None if found is None else (found.offset, found.timestamp_ms)) == brute_first(log, timestamp_ms)
    newest = log.offset_of_max_timestamp()
    assert (None if newest is None else (newest.offset, newest.timestamp_ms)) == brute_newest(log)


def test_lookup_by_time_returns_the_epoch_of_the_record(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(1, timestamps=[NOW_MS]), epoch=3)
    append(log, a_batch(1, timestamps=[NOW_MS + 5]), epoch=8)
    found, newest = log.offset_for_timestamp(NOW_MS + 1), log.offset_of_max_timestamp()
    assert found is not None and newest is not None
    assert found.leader_epoch == newest.leader_epoch == 8


@pytest.mark.parametrize("segments", [1, 2])
def test_newest_record_is_found_if_compaction_emptied_the_newest_batch(tmp_path: Path, segments: int) -> None:
    """The batch stays because it is the last one of its producer, but its record is gone."""
    log = open_at(tmp_path, replace(COMPACT, segment_bytes=400 if segments == 1 else 250))
    for key, after_ms, producer in [(b"a", 5, None), (b"b", 9, (7, 0, 0)), (b"c", 5, None), (b"b", 1, None)]:
        append(log, a_batch(1, key=key, timestamps=[NOW_MS + after_ms], producer=producer))
        if segments == 2 and key == b"a":
            log.roll()
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    clean(log)
    assert [batch.record_count for batch in read_batches(log)] == [1, 0, 1, 1]
    assert len(log.segments.all) == segments + 1
    newest = log.offset_of_max_timestamp()
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (0, NOW_MS + 5) == brute_newest(log)
    assert log.offset_for_timestamp(NOW_MS + 6) is None


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_newest_record_is_found_behind_many_empty_batches(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_lookup, "_CHOSEN_AT_ONCE", at_once)
    log = open_at(tmp_path, COMPACT)
    append(log, a_batch(1, key=b"a", timestamps=[NOW_MS + 5]))
    for at, after_ms in enumerate((9, 9, 7, 8)):
        append(log, a_batch(1, key=b"b", timestamps=[NOW_MS + after_ms], producer=(at, 0, 0)))
    append(log, a_batch(1, key=b"c", timestamps=[NOW_MS + 5]))
    append(log, a_batch(1, key=b"b", timestamps=[NOW_MS + 1]))
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    clean(log)
    assert [batch.record_count for batch in read_batches(log)] == [1, 0, 0, 0, 0, 1, 1]
    newest = log.offset_of_max_timestamp()
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (0, NOW_MS + 5) == brute_newest(log)


def test_newest_record_is_found_without_a_list_of_all_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large segment has millions of batches."""
    monkeypatch.setattr(time_lookup, "_CHOSEN_AT_ONCE", 64, raising=False)
    log = open_at(tmp_path)
    append(log, a_batch(2, timestamps=[NOW_MS + 10_000, NOW_MS]))
    for n in range(3000):
        append(log, a_batch(1, timestamps=[NOW_MS + n]))
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(1)
    tracemalloc.start()
    try:
        newest = log.offset_of_max_timestamp()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (3001, NOW_MS + 2999)
    assert peak_bytes < 200_000


def test_lookup_by_time_in_an_empty_log_finds_nothing(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None


def test_a_large_record_is_found_by_the_header_of_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_at(tmp_path)
    for n in range(3):
        append(log, a_batch(1, timestamps=[NOW_MS + n], value=b"v" * 100_000), epoch=n)
    append(log, a_batch(2, timestamps=[NOW_MS + 8, NOW_MS + 9], value=b"v" * 50_000), epoch=4)
    log.advance_high_watermark(log.log_end_offset)
    expected = {n: brute_first(log, NOW_MS + n) for n in range(10)}
    newest = brute_newest(log)
    read: list[int] = []
    batch_at = Segment.batch_at

    def noted(segment: Segment, place: BatchPlace) -> BatchView:
        read.append(place.base_offset)
        return batch_at(segment, place)

    monkeypatch.setattr(Segment, "batch_at", noted)
    for n, wanted in expected.items():
        found = log.offset_for_timestamp(NOW_MS + n)
        assert found is not None and (found.offset, found.timestamp_ms) == wanted
        assert found.leader_epoch == (n if n < 3 else 4)
    assert set(read) == {3}, "only the batch with two records was read"
    found = log.offset_of_max_timestamp()
    assert found is not None and (found.offset, found.timestamp_ms) == newest
