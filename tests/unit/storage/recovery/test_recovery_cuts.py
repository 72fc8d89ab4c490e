"""Recovery keeps everything that it cuts from a log as a stray, except a torn last batch. Every whole batch can be
found again.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.storage.core.salvage import good_batches
from headrace.storage.dirs.strays import CUTS_KEPT_MS, Stray, StrayKind, strays_in
from headrace.storage.recovery import cuts as recovery_cuts
from headrace.storage.recovery.recovery import Damage
from tests.support.crash_images import CONFIG, Original
from tests.support.effort import is_long
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at, open_dirs, read_batches

_LENGTH_AT = 8


@pytest.fixture(scope="module")
def original() -> Iterator[Original]:
    with directory_in_memory() as directory:
        yield Original(directory)


def places(original: Original) -> list[tuple[str, int, int]]:
    """(file, position, size) of every batch."""
    found, number = [], 0
    for name, length in original.segment_files:
        position = 0
        while position < length:
            size = len(original.batches[number])
            found.append((name, position, size))
            position += size
            number += 1
    return found


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def kept_in(stray: Stray) -> list[bytes]:
    files = stray.cut_files()
    return [bytes(batch.data) for file in files for batch in good_batches(memoryview(file.read_bytes()))]


def recover(original: Original, image: Path) -> tuple[list[bytes], list[bytes]]:
    """(batches of the log, whole batches in the stray) after a recovery of the image."""
    log = open_at(image, CONFIG)
    survived = [bytes(batch.data) for batch in read_batches(log)]
    end = log.log_end_offset
    log.close(clean=False)
    strays = strays_in(original.images)
    assert len(strays) <= 1
    kept = [data for stray in strays for data in kept_in(stray)]
    if strays:
        note = strays[0].note
        assert note is not None and (note.kind, note.first_offset) == (StrayKind.CUT, end)
    open_at(image, CONFIG).close(clean=False)
    assert strays_in(original.images) == strays, "opening again keeps nothing new"
    return survived, kept


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_recovery_of_one_bad_batch_keeps_every_other_batch_in_the_log_or_the_stray(original: Original) -> None:
    """Damages the records of each batch in turn."""
    everything = places(original)
    for number in range(0, len(everything), 1 if is_long() else 23):
        name, position, size = everything[number]
        image = original.image()
        flip(image / name, position + size - 1)
        survived, kept = recover(original, image)
        assert survived == original.batches[:number]
        assert kept == original.batches[number + 1 :], f"batch {number}"


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_batch_with_a_length_past_the_end_is_not_torn_if_others_follow(original: Original) -> None:
    everything = places(original)
    last_name = everything[-1][0]
    in_last = [number for number, place in enumerate(everything) if place[0] == last_name]
    for number in in_last[: -1 : 1 if is_long() else 7]:
        name, position, _ = everything[number]
        image = original.image()
        with (image / name).open("r+b") as file:
            os.pwrite(file.fileno(), struct.pack(">i", 1 << 24), position + _LENGTH_AT)
        survived, kept = recover(original, image)
        assert survived == original.batches[:number]
        assert kept == original.batches[number + 1 :]


def test_a_torn_last_batch_is_cut_without_a_stray_at_every_byte(original: Original) -> None:
    size = len(original.batches[-1])
    for missing in range(1, size, 1 if is_long() else 11):
        image = original.image()
        original.cut(image, original.size - missing)
        survived, kept = recover(original, image)
        assert survived == original.batches[:-1] and not kept
        assert strays_in(original.images) == []


def test_a_last_batch_with_a_wrong_checksum_is_kept(original: Original) -> None:
    image = original.image()
    name, position, size = places(original)[-1]
    flip(image / name, position + size - 1)
    recover(original, image)
    [stray] = strays_in(original.images)
    [file] = stray.cut_files()
    assert file.stat().st_size == size and stray.count_records() == 0


def test_preallocated_space_is_cut_without_a_stray(tmp_path: Path) -> None:
    log = open_at(tmp_path / "log" / "orders-0")
    append(log, a_batch(3))
    log.close(clean=False)
    with (tmp_path / "log" / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(5000))
    assert open_at(tmp_path / "log" / "orders-0").log_end_offset == 3
    assert strays_in(tmp_path / "log") == []


def test_damage_report_names_the_stray(original: Original) -> None:
    image = original.image()
    name, position, size = places(original)[-2]
    flip(image / name, position + size - 1)
    damages: list[Damage] = []
    open_at(image, CONFIG, damages=damages).close(clean=False)
    [stray] = strays_in(original.images)
    [damage] = damages
    assert damage.kept == stray.path and str(stray.path) in str(damage)
    assert f"cut {size + len(original.batches[-1])} bytes from byte {position} on" in str(damage)


def test_recovery_cuts_nothing_if_there_is_no_space_for_the_stray(
    original: Original, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = original.image("orders-0")
    name, position, size = places(original)[0]
    flip(image / name, position + size - 1)
    before = {path.name: path.read_bytes() for path in image.glob("*.log")}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recovery_cuts, "write_fully", full)
    shutil.move(image, tmp_path / "orders-0")
    other = open_dirs(tmp_path, tmp_path / "other", config=CONFIG)
    [broken] = other.offline
    assert broken.offline_reason is not None and "no space to keep" in broken.offline_reason
    other.close(clean=False)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "orders-0").glob("*.log")}
    assert strays_in(tmp_path) == []


@pytest.mark.parametrize(
    ("clean", "later_ms", "is_kept"),
    [(True, CUTS_KEPT_MS - 1, True), (False, CUTS_KEPT_MS, True), (True, CUTS_KEPT_MS, False)],
    ids=["clean, within a week", "unclean, after a week", "clean, after a week"],
)
def test_a_cut_is_kept_for_a_week_and_then_until_the_next_clean_start(
    tmp_path: Path, clean: bool, later_ms: int, is_kept: bool
) -> None:
    dirs = open_dirs(tmp_path, now_ms=NOW_MS)
    log = dirs.create("orders", 0)
    sizes = []
    for _ in range(3):
        append(log, a_batch(2))
        sizes.append(log.size_bytes)
    dirs.close(clean=False)
    flip(tmp_path / "orders-0" / f"{0:020d}.log", sizes[1] - 1)
    dirs = open_dirs(tmp_path, now_ms=NOW_MS)
    dirs.close(clean=clean)
    [stray] = strays_in(tmp_path)
    assert stray.count_records() == 2
    again = open_dirs(tmp_path, now_ms=NOW_MS + later_ms)
    again.deletions.purge(NOW_MS + later_ms)
    assert bool(strays_in(tmp_path)) is is_kept
    again.close()
