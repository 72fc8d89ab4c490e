"""After any crash the log is a prefix of what was appended and has all synced records; opening twice changes nothing.

A crash image is a copy of a log's files with truncated, flipped, emptied or missing parts. The tests open each image,
compare it with what was appended, open it again, and compare it with a log rebuilt from its data files alone.
`make fuzz` cuts at every single byte of the last 64 KiB instead of a sample, and tries more damage of every other kind.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.records.builder import Record, build_batch
from headrace.storage.dirs.checkpoints import KnownAborted
from headrace.storage.dirs.log_dir import known_aborted
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery import inspection
from headrace.storage.recovery.index_check import check_hints
from headrace.storage.recovery.recovery import Damage, PartitionCheckpoints
from tests.support.crash_images import CONFIG, Original, state
from tests.support.effort import is_long, rounds
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at, read_batches

LAST_BYTES = 64 * 1024
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def original() -> Iterator[Original]:
    with directory_in_memory() as directory:
        yield Original(directory)


def check(
    original: Original, image: Path, *, at_least: int = 0, exactly: int | None = None, clean: bool = False
) -> Log:
    """Opens the image. `exactly` or `at_least` this many batches must have survived, in order and unchanged."""
    log = open_at(image, CONFIG, clean=clean)
    survived = [bytes(batch.data) for batch in read_batches(log)]
    assert survived == original.batches[: len(survived)], "what is left is a prefix of what was appended"
    assert len(survived) >= at_least and (exactly is None or len(survived) == exactly)
    assert log.log_end_offset == ([0, *original.ends][len(survived)])
    return log


def check_fully(original: Original, image: Path, **expected: Any) -> None:
    first = state(check(original, image, **expected))
    again = state(open_at(image, CONFIG))
    assert again == first, "opening twice gives the same"
    bare = image.with_name(image.name + "-bare")
    shutil.rmtree(bare, ignore_errors=True)
    bare.mkdir()
    for path in image.glob("*.log"):
        shutil.copy(path, bare)
    assert state(open_at(bare, CONFIG)) == first, "the data alone tells the same story"


def test_sample_log_has_segments_indexes_and_transactions(original: Original) -> None:
    assert original.size > LAST_BYTES + 10_000 and len(original.segment_files) >= 3
    assert any(segment.txn_index.entries for segment in open_at(original.image(), CONFIG).segments.all)


def cuts(original: Original) -> Iterator[int]:
    if is_long():
        yield from range(original.size - LAST_BYTES, original.size + 1)
        return
    boundary = 0
    for data in original.batches:
        boundary += len(data)
        if boundary > original.size - LAST_BYTES and len(data) % 3 == 0:
            yield from (size for size in (boundary - 1, boundary, boundary + 1) if size <= original.size)
    yield from range(original.size - LAST_BYTES, original.size, 997)


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
def test_log_truncated_at_any_byte_keeps_every_whole_batch_before_it(original: Original) -> None:
    for number, size in enumerate(cuts(original)):
        image = original.image()
        original.cut(image, size)
        whole = original.batches_within(size)
        if number % 25 == 0:
            check_fully(original, image, exactly=whole)
        else:
            check(original, image, exactly=whole)


def test_appends_continue_after_recovery_and_survive_the_next_crash(original: Original) -> None:
    image = original.image()
    original.cut(image, original.size - 333)
    log = open_at(image, CONFIG)
    end = log.log_end_offset
    assert append(log, a_batch(4), epoch=99) == (end, end + 3)
    log.close(clean=False)
    log = open_at(image, CONFIG)
    assert log.log_end_offset == end + 4 and log.leader_epochs.entries[-1] == (99, end)


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
def test_a_flipped_byte_ends_the_log_before_its_batch(original: Original) -> None:
    random_source = random.Random(3)
    for number in range(rounds(short=80, long=4000)):
        image = original.image()
        name, length = random_source.choice(original.segment_files)
        position = random_source.randrange(length)
        data = bytearray((image / name).read_bytes())
        data[position] ^= 1 << random_source.randrange(8)
        (image / name).write_bytes(data)
        before = sum(size for other, size in original.segment_files if other < name)
        whole = original.batches_within(before + position)
        inside = before + position - sum(len(batch) for batch in original.batches[:whole])
        if 12 <= inside < 16 or (inside < 8 and whole == len(original.batches) - 1):
            # The checksum does not cover the leader epoch, and no batch follows the last one to contradict its offset.
            continue
        damages: list[Damage] = []
        log = open_at(image, CONFIG, damages=damages)
        assert [bytes(batch.data) for batch in read_batches(log)] == original.batches[:whole]
        named = [damage for damage in damages if damage.path.name == name]
        assert named and named[0].reason and named[0].position <= position
        if number % 10 == 0:
            check_fully(original, image, exactly=whole)


def test_recovery_keeps_batches_behind_a_compaction_gap_before_later_damage(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    for offset in (0, 500, 501):
        log.append_as_follower(
            memoryview(build_batch([Record(b"k", b"v" * 50, timestamp_ms=NOW_MS)], base_offset=offset))
        )
    log.close(clean=False)
    path = tmp_path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert [batch.base_offset for batch in read_batches(open_at(tmp_path, CONFIG))] == [0, 500]


def test_zeros_and_random_bytes_after_the_end_are_cut(original: Original) -> None:
    for tail in (bytes(1), bytes(70_000), random.Random(1).randbytes(5000), original.batches[0]):
        image = original.image()
        with (image / original.segment_files[-1][0]).open("ab") as file:
            file.write(tail)
        check_fully(original, image, exactly=len(original.batches))


def test_synced_data_is_trusted_and_kept(original: Original) -> None:
    image = original.image()
    recovery_point = int(original.segment_files[-1][0].partition(".")[0])
    damaged = image / original.segment_files[0][0]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 0xFF
    damaged.write_bytes(data)
    log = open_at(image, CONFIG, marks=PartitionCheckpoints(recovery_point=recovery_point))
    assert log.log_end_offset == original.ends[-1], "segments below the recovery point are not read again"


def test_lost_segment_in_the_middle_does_not_end_the_log(original: Original) -> None:
    """Retention and compaction leave such gaps too; readers skip them."""
    image = original.image()
    (image / original.segment_files[1][0]).unlink()
    log = open_at(image, CONFIG)
    assert log.log_end_offset == original.ends[-1]


# A file that is truncated between two entries looks complete.
ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
SMALL_FILES: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
    "torn": lambda path: os.truncate(path, path.stat().st_size // 2 + 1),
    "shorter": lambda path: os.truncate(path, path.stat().st_size - ENTRY_BYTES.get(path.suffix, 1)),
    "noise": lambda path: path.write_bytes(random.Random(5).randbytes(max(40, path.stat().st_size))),  # type: ignore[dict-item]
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),  # type: ignore[dict-item]
}


HARMED = ["*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint", "*[!g]"]


@pytest.mark.parametrize("harm", SMALL_FILES)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("pattern", HARMED)
def test_damaged_small_files_are_rebuilt_from_the_data(
    original: Original, pattern: str, clean: bool, harm: str
) -> None:
    image = original.image("clean")
    closed = open_at(image, CONFIG)
    expected = state(closed)
    closed.close()
    for path in image.glob(pattern):
        SMALL_FILES[harm](path)
    log = open_at(image, CONFIG, clean=clean, marks=PartitionCheckpoints(aborted=known_aborted(closed)))
    # Read first: a corrupt index is detected when it is used.
    for start in range(0, log.log_end_offset, 97):
        piece = log.read(start, 1)
        assert piece is not None
    for segment in log.segments.all:
        check_hints(segment)
    found = state(log)
    if (pattern, harm) == ("*.index", "shorter"):
        # Positions that are not in the index are found by a longer walk.
        found["indexes"] = expected["indexes"]
    assert found == expected
    later, newest = log.offset_for_timestamp(NOW_MS + 50), log.offset_of_max_timestamp()
    assert later is not None and later.timestamp_ms >= NOW_MS + 50 and newest is not None


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
def test_any_mixture_of_damage_leaves_a_prefix_and_files_that_agree(original: Original) -> None:
    """Damages several files at random bytes. After recovery `headrace log verify` finds no problem."""
    for seed in range(rounds(short=15, long=3000)):
        chance = random.Random(seed)
        image = original.image()
        for path in chance.sample(sorted(image.iterdir()), chance.randint(1, 6)):
            data = bytearray(path.read_bytes())
            size = len(data)
            # Damage only the end of the data: flipped bytes have their own test.
            kind = chance.choice(("cut", "noise", "removed") if path.suffix != ".log" else ("cut", "grown"))
            if kind == "removed":
                path.unlink()
                continue
            if kind == "grown" or (path.suffix == ".log" and path.name != original.segment_files[-1][0]):
                data += chance.randbytes(chance.randint(1, 300))
            elif kind == "cut":
                del data[chance.randint(0, size) :]
            else:
                for _ in range(min(size, chance.randint(1, 8))):
                    data[chance.randrange(size)] = chance.randrange(256)
            path.write_bytes(data)
        log = check(original, image)
        log.close()
        assert inspection.verify(image).problems == [], f"seed {seed}"


@pytest.mark.parametrize("harm", [harm for harm in SMALL_FILES if harm != "zeros"])
@pytest.mark.parametrize("told", [True, False])
def test_aborted_transactions_stay_aborted_if_their_index_is_damaged(original: Original, told: bool, harm: str) -> None:
    """Recovery reads a segment below the recovery point only if its index differs from the checkpoint, or if there is
    no checkpoint and the segment has markers."""
    image = original.image("clean")
    closed = open_at(image, CONFIG)
    expected = state(closed)
    closed.close()
    marks = PartitionCheckpoints(
        closed.active_segment.base_offset, aborted=known_aborted(closed) if told else KnownAborted()
    )
    for path in image.glob("*.txnindex"):
        SMALL_FILES[harm](path)
    for clean in (True, False):
        assert state(open_at(image, CONFIG, clean=clean, marks=marks))["aborted"] == expected["aborted"]


def test_segments_with_a_matching_aborted_transaction_digest_are_not_read(original: Original) -> None:
    image = original.image("clean")
    closed = open_at(image, CONFIG)
    closed.close()
    indexes = sorted(image.glob("*.txnindex"))
    before = [path.stat().st_ino for path in indexes]
    assert len(before) >= 2
    open_at(image, CONFIG, clean=True, marks=PartitionCheckpoints(aborted=known_aborted(closed)))
    assert [path.stat().st_ino for path in indexes] == before, "none was made anew"


def test_truncated_time_index_does_not_make_retention_delete_new_records(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4_000, index_interval_bytes=100, retention_ms=500)
    log = open_at(tmp_path, config)
    for at in range(60):
        append(log, a_batch(1, value=bytes(100), timestamps=[NOW_MS + 10 * at]))
    log.advance_high_watermark(60)
    log.close()
    ends = [segment.base_offset for segment in log.segments.all[1:]] + [60]
    for path in tmp_path.glob("*.timeindex"):
        os.truncate(path, 12)
    log = open_at(tmp_path, config, clean=True, marks=PartitionCheckpoints(high_watermark=60))
    now_ms = NOW_MS + 10 * (ends[0] - 1) + 500
    assert log.delete_old_segments(now_ms).count == 0, "its newest record is just young enough"
    assert log.offset_for_timestamp(NOW_MS + 590) == (59, NOW_MS + 590, 0)
    assert log.delete_old_segments(now_ms + 1).count == 1


def test_epoch_checkpoint_older_than_the_data_is_rebuilt(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    append(log, a_batch(3), epoch=4)
    assert log.save_epochs()
    old = (tmp_path / "leader-epoch-checkpoint").read_bytes()
    append(log, a_batch(2), epoch=7)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(old)
    assert open_at(tmp_path, CONFIG, clean=True).leader_epochs.entries == [(4, 0), (7, 3)]


def test_epoch_checkpoint_older_than_trusted_segments_is_rebuilt(tmp_path: Path) -> None:
    """After a power failure: epoch 7 began in a segment that is not checked and continues in one that is."""
    log = open_at(tmp_path, CONFIG)
    append(log, a_batch(3), epoch=4)
    assert log.save_epochs()
    old = (tmp_path / "leader-epoch-checkpoint").read_bytes()
    append(log, a_batch(2), epoch=7)
    log.flush()
    log.roll(now_ms=NOW_MS)
    append(log, a_batch(1), epoch=7)
    append(log, a_batch(1), epoch=9)
    log.close(clean=False)
    (tmp_path / "leader-epoch-checkpoint").write_bytes(old)
    log = open_at(tmp_path, CONFIG, marks=PartitionCheckpoints(recovery_point=5))
    assert log.leader_epochs.entries == [(4, 0), (7, 3), (9, 6)]


def test_files_of_an_unfinished_replacement_are_deleted(original: Original) -> None:
    image = original.image()
    for suffix in (".log.cleaned", ".index.cleaned", ".log.deleted", ".timeindex.deleted", ".snapshot.tmp"):
        (image / f"{0:020d}{suffix}").write_bytes(b"anything")
    check_fully(original, image, exactly=len(original.batches))
    assert not [path for path in image.iterdir() if path.suffix in (".cleaned", ".deleted", ".tmp", ".swap")]


def test_complete_replacement_replaces_the_old_segments(original: Original) -> None:
    image = original.image()
    first, second = (name for name, _ in original.segment_files[:2])
    both = (image / first).read_bytes() + (image / second).read_bytes()
    (image / (first + ".swap")).write_bytes(both)
    log = check(original, image, exactly=len(original.batches))
    assert len(log.segments.all) == len(original.segment_files) - 1


def test_records_deleted_before_the_crash_stay_deleted(original: Original) -> None:
    log = open_at(original.image(), CONFIG, marks=PartitionCheckpoints(log_start_offset=50, high_watermark=60))
    assert (log.log_start_offset, log.high_watermark) == (50, 60)
    beyond = original.ends[-1] + 10
    log = open_at(original.image(), CONFIG, marks=PartitionCheckpoints(log_start_offset=beyond))
    assert (log.log_start_offset, log.log_end_offset) == (beyond, beyond)


@pytest.mark.parametrize("deleted_to", [1, 2])
def test_a_producer_whose_records_were_deleted_is_known_after_a_crash(tmp_path: Path, deleted_to: int) -> None:
    """Its next batch is accepted, and a repeated one is found. Records were deleted with a segment, and inside one."""
    log = open_at(tmp_path / "orders-0")
    append(log, a_batch(producer=(7, 0, 0)))
    log.roll()
    append(log, a_batch(producer=(8, 0, 0)))
    append(log, a_batch())
    log.advance_high_watermark(3)
    log.advance_log_start(deleted_to)
    assert log.delete_old_segments(NOW_MS).count == 1
    log.flush()
    log.close(clean=False)
    marks = PartitionCheckpoints(recovery_point=log.recovery_point, log_start_offset=deleted_to)
    again = open_at(tmp_path / "orders-0", marks=marks)
    known = {producer_id: entry.last_sequence for producer_id, entry in again.producers.entries.items()}
    assert known == {7: 0, 8: 0}
    assert append(again, a_batch(producer=(7, 0, 0))) == (0, 0), "it is stored once"
    assert append(again, a_batch(producer=(7, 0, 1))) == (3, 3)


def test_a_second_crash_keeps_the_producers_of_segments_deleted_since_the_first(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0")
    append(log, a_batch(producer=(7, 0, 0)))
    log.roll()
    append(log, a_batch())
    log.close(clean=False)
    log = open_at(tmp_path / "orders-0")  # it checks both segments
    append(log, a_batch())
    log.advance_high_watermark(3)
    log.advance_log_start(1)
    assert log.delete_old_segments(NOW_MS).count == 1
    log.close(clean=False)
    again = open_at(tmp_path / "orders-0", marks=PartitionCheckpoints(log_start_offset=1))
    assert append(again, a_batch(producer=(7, 0, 0))) == (0, 0), "it is stored once"


@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_from_before_the_first_segment_is_not_used(tmp_path: Path, clean: bool) -> None:
    """The batches between it and the segment are deleted, so its sequence numbers may be old."""
    log = open_at(tmp_path / "orders-0")
    for sequence in range(2):
        append(log, a_batch(producer=(7, 0, sequence)))
        log.roll()
    append(log, a_batch())
    log.advance_high_watermark(3)
    first = tmp_path / "orders-0" / f"{1:020d}.snapshot"
    kept = first.read_bytes()
    log.advance_log_start(2)
    log.delete_old_segments(NOW_MS)
    log.flush()
    log.close(clean=clean)
    for snapshot in (tmp_path / "orders-0").glob("*.snapshot"):
        snapshot.unlink()
    first.write_bytes(kept)  # it knows sequence 0, and the producer goes on with 2
    again = open_at(tmp_path / "orders-0", clean=clean, marks=PartitionCheckpoints(log_start_offset=2))
    assert append(again, a_batch(producer=(7, 0, 2))) == (3, 3)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_keeps_a_producer_of_old_records_for_its_whole_time(tmp_path: Path, clean: bool) -> None:
    """Kafka's snapshots have no time of the write; the file of its last batch was written later."""
    log = open_at(tmp_path / "orders-0")
    append(log, a_batch(timestamps=[NOW_MS - 2 * DAY_MS], producer=(7, 0, 0)))
    log.roll()
    append(log, a_batch())
    log.flush()
    log.close(clean=clean)
    for path, days in (("0", 1), ("1", 0)):
        written_s = NOW_MS / 1000 - days * 86_400
        os.utime(tmp_path / "orders-0" / f"{path:0>20}.log", (written_s, written_s))
    again = open_at(tmp_path / "orders-0", clean=clean)
    assert again.producers.entries[7].last_timestamp_ms == NOW_MS - 2 * DAY_MS
    assert [again.producers.expire(NOW_MS + more, DAY_MS) for more in (-1, 0)] == [0, 1]


def test_a_start_without_the_newest_snapshot_also_reads_deleted_records_that_are_still_there(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0")
    append(log, a_batch(producer=(7, 0, 0)))
    log.roll()
    append(log, a_batch(producer=(7, 0, 1)))
    append(log, a_batch())
    log.advance_high_watermark(3)
    log.advance_log_start(2)
    log.close()
    (tmp_path / "orders-0" / f"{3:020d}.snapshot").unlink()
    again = open_at(tmp_path / "orders-0", clean=True, marks=PartitionCheckpoints(log_start_offset=2))
    assert append(again, a_batch(producer=(7, 0, 2))) == (3, 3), "the snapshot of the roll knows only sequence 0"


def test_start_after_a_clean_stop_does_not_read_the_data(original: Original) -> None:
    image = original.image()
    log = open_at(image, CONFIG)
    expected = state(log)
    log.close()
    progress: list[Damage] = []
    assert state(open_at(image, CONFIG, clean=True, damages=progress)) == expected and not progress
