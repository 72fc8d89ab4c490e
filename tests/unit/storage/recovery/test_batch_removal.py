"""Unreadable batches become empty: no other record, offset or producer changes, even after a crash at any step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.records.batch import BatchView
from headrace.records.compression import Codec
from headrace.records.reader import fault_in_records, read_records
from headrace.storage.dirs.strays import StrayKind, strays_in
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.producer_state import encode_snapshot
from headrace.storage.recovery import batch_removal, inspection, segment_check
from headrace.storage.recovery.batch_removal import remove_unreadable
from tests.support.logs import NOW_MS, PARTITION, a_batch, append, directory_in_memory, open_at
from tests.support.unreadable_batches import Damage, unreadable_batch, with_section

# Small segments: the unreadable batches are in the middle of one, at its beginning and at its end.
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)
BATCHES = 24


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


def written(directory: Path, unreadable: set[int]) -> None:
    """Writes batches of an idempotent producer; the batches with an index in `unreadable` cannot be read."""
    log = open_at(directory, CONFIG)
    for number in range(BATCHES):
        batch = bytes(a_batch(3, codec=Codec.LZ4, value=b"v%d" % number, producer=(9, 0, 3 * number)))
        if number in unreadable:
            batch = with_section(batch, unreadable_batch(Codec.LZ4, Damage.GARBAGE)[61:])
        append(log, batch, epoch=number // 10)
    log.close()


def batches_of(log: Log) -> list[BatchView]:
    return [batch for segment in log.segments.all for batch in segment.batches(0)]


def records_of(log: Log) -> dict[int, bytes | None]:
    """The values of every readable batch, by offset."""
    readable = [batch for batch in batches_of(log) if fault_in_records(batch) is None]
    return {record.offset: record.value for batch in readable for record in read_records(batch)}


def producers_of(log: Log) -> bytes:
    return encode_snapshot(list(log.producers.entries.values()))


def removed(directory: Path) -> Path:
    return remove_unreadable(directory, PARTITION, inspection.verify(directory).unreadable, NOW_MS)


@pytest.mark.parametrize("unreadable", [{0}, {5}, {BATCHES - 1}, {0, 1, 2}, {3, 9, 10, 17}, set(range(BATCHES))])
def test_all_other_records_offsets_epochs_and_producers_stay(unreadable: set[int], tmp_path: Path) -> None:
    directory = tmp_path / "data" / "orders-0"
    written(directory, unreadable)
    before = open_at(directory, CONFIG)
    expected, producers = records_of(before), producers_of(before)
    headers = [(b.base_offset, b.last_offset, b.max_timestamp_ms, b.base_sequence) for b in batches_of(before)]
    end, epochs = before.log_end_offset, before.leader_epochs.entries
    before.close()
    assert len(expected) == 3 * (BATCHES - len(unreadable))

    stray = removed(directory)

    verdict = inspection.verify(directory)
    assert verdict.problems == [] and verdict.records == len(expected)
    after = open_at(directory, CONFIG)
    assert records_of(after) == expected
    assert [(b.base_offset, b.last_offset, b.max_timestamp_ms, b.base_sequence) for b in batches_of(after)] == headers
    assert (after.log_end_offset, after.leader_epochs.entries) == (end, epochs)
    assert producers_of(after) == producers
    emptied = [batch.base_offset // 3 for batch in batches_of(after) if batch.record_count == 0]
    assert set(emptied) == unreadable
    append(after, a_batch(3, producer=(9, 0, 3 * BATCHES)))  # the producer continues with its next sequence
    after.close()
    (found,) = strays_in(directory.parent)
    assert found.path == stray and found.kind is StrayKind.CUT and found.count_records() == 3 * len(unreadable)
    assert found.offsets()[0] == 3 * min(unreadable)


def test_crash_at_any_step_loses_no_other_record_and_the_command_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "data"
    directory = home / "orders-0"
    written(directory, {4, 11, 20})
    opened = open_at(directory, CONFIG)
    expected, end = records_of(opened), opened.log_end_offset
    opened.close()
    images: list[Path] = []

    def filmed(real: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            done = real(*arguments, **options)
            image = tmp_path / f"image-{len(images)}"
            shutil.copytree(home, image)
            images.append(image)
            return done

        return step

    for owner, name in ((os, "fsync"), (Path, "mkdir"), (Path, "unlink"), (Path, "replace")):
        monkeypatch.setattr(owner, name, filmed(getattr(owner, name)))
    monkeypatch.setattr(batch_removal, "repair_hints", filmed(segment_check.repair_hints))
    removed(directory)
    monkeypatch.undo()
    assert len(images) > 20
    for image in images:
        for clean in (True, False):  # indexes are trusted after a clean stop, rebuilt otherwise
            place = tmp_path / "opened"
            shutil.copytree(image, place)
            log = open_at(place / "orders-0", CONFIG, clean=clean)
            assert records_of(log) == expected and log.log_end_offset == end, image
            for offset in expected:
                assert log.read(offset, 1) is not None, (image, offset)
            log.close()
            if left := inspection.verify(place / "orders-0").unreadable:
                remove_unreadable(place / "orders-0", PARTITION, left, NOW_MS)
            assert inspection.verify(place / "orders-0").problems == []
            shutil.rmtree(place)


def test_verification_continues_behind_an_unreadable_batch(tmp_path: Path) -> None:
    """It finds damage behind the batch, too, and counts only readable records."""
    directory = tmp_path / "data" / "orders-0"
    written(directory, {2})
    verdict = inspection.verify(directory)
    assert (verdict.batches, verdict.records, len(verdict.problems)) == (BATCHES, 3 * (BATCHES - 1), 1)
    assert verdict.unreadable[0].fault.base_offset == 6
    last = sorted(directory.glob("*.log"))[-1]
    with last.open("r+b") as file:
        file.seek(last.stat().st_size - 2)
        file.write(b"\xff")
    assert len(inspection.verify(directory).problems) == 2
