"""Compaction keeps the last value of every key, changes no offset and no order, and survives a crash at any step."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.records.reader import read_records
from headrace.storage.cleaner import Cleaner, dirt_of, install, prepare
from headrace.storage.compaction_rounds import CHECKPOINT_FILE, CleanerSettings, CompactionRounds
from headrace.storage.core.compaction import SegmentFacts, assess, group
from headrace.storage.files import CLEANED_SUFFIX, SWAP_SUFFIX
from headrace.storage.leading import AppendOrigin
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.log_dir import known_aborted
from headrace.storage.log_dirs import LogDirs, StorageSettings
from headrace.storage.recovery import Marks
from tests.support.logs import NOW_MS, directory_in_memory, open_at, read_batches

HOUR_MS = 3_600_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=HOUR_MS, min_cleanable_dirty_ratio=0.0)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: rounds sync a great deal, and no test here is about what a disk keeps."""
    with directory_in_memory() as directory:
        yield directory


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


def put(
    log: Log, *pairs: tuple[str, str | None], producer: tuple[int, int, int] | None = None, codec: Codec = Codec.NONE
) -> int:
    records = [Record(k.encode(), None if v is None else v.encode(), timestamp_ms=NOW_MS) for k, v in pairs]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=producer is not None,
    )
    appended = log.append_as_leader(bytearray(data), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return appended.first_offset


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
    marker = build_end_txn_marker(commit, 0, producer_id, epoch, NOW_MS)
    log.append_as_leader(bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)


def clean(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    checkpoint: int | None = None,
    memory_bytes: int = 1 << 20,
    replicated: int | None = None,
) -> int:
    """One round; gives the offset up to which the log is clean."""
    dirt = dirt_of(log, checkpoint, now_ms)
    job = prepare(log, dirt, replicated_up_to=log.high_watermark if replicated is None else replicated, now_ms=now_ms)
    cleaned = Cleaner(memory_bytes).clean(job)
    assert install(log, cleaned, now_ms)
    return cleaned.clean_up_to


def visible(log: Log) -> list[tuple[int, bytes, bytes | None]]:
    """What a reader of committed records sees, in order: (offset, key, value)."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found = []
    for batch in read_batches(log):
        if batch.is_control or batch.base_offset >= log.last_stable_offset:
            continue
        skipped = batch.is_transactional and any(
            entry.producer_id == batch.producer_id and entry.first_offset <= batch.base_offset <= entry.last_offset
            for entry in aborted
        )
        if not skipped:
            found += [(r.offset, r.key or b"", r.value) for r in read_records(batch)]
    return found


def latest(records: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for _, key, value in records:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def test_the_last_value_of_a_key_stays_at_its_offset(tmp_path: Path) -> None:
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
def test_every_codec_is_opened_and_closed_again(tmp_path: Path, codec: Codec) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, *[("same", str(n)) for n in range(50)], ("other", "x"), codec=codec)
    log.roll()
    clean(log)
    assert visible(log) == [(49, b"same", b"49"), (50, b"other", b"x")]
    batch: BatchView = read_batches(log)[0]
    batch.check_crc()
    assert batch.codec is codec
    assert batch.base_offset == 0, "a batch that loses records keeps its first offset"


def test_a_tombstone_stays_for_its_time_and_until_every_replica_has_passed_it(tmp_path: Path) -> None:
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


def test_timestamps_survive_the_delete_horizon(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", None), ("b", "1"))
    log.roll()
    clean(log)
    assert [record.timestamp_ms for record in read_records(read_batches(log)[0])] == [NOW_MS, NOW_MS]


def test_aborted_records_go_and_do_not_shadow_committed_ones(tmp_path: Path) -> None:
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


def test_an_open_transaction_is_left_alone(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    put(log, ("a", "1"))
    put(log, ("a", "open"), producer=(7, 0, 0))
    log.roll()
    assert clean(log) == 1
    end(log, 7, commit=False)
    assert visible(log) == [(0, b"a", b"1")]


def test_a_producers_last_batch_is_kept_empty_so_that_its_sequence_is_not_forgotten(tmp_path: Path) -> None:
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


def test_a_full_map_ends_the_round_early_and_the_next_goes_on(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    for n in range(3000):
        put(log, (f"k{n % 1500}", str(n)))
    log.roll()
    first = clean(log, memory_bytes=0)
    assert 0 < first < 3000
    clean(log, checkpoint=first)
    before = latest(visible(log))
    assert before == {f"k{n % 1500}".encode(): str(n).encode() for n in range(3000)}


def test_small_segments_are_put_together() -> None:
    facts = [SegmentFacts(base, base + 10, 100, 0) for base in range(0, 60, 10)]
    assert [[f.base_offset for f in g] for g in group(facts, segment_bytes=250, index_bytes=1000)] == [
        [0, 10],
        [20, 30],
        [40, 50],
    ]


def test_a_young_segment_waits_for_the_compaction_lag_and_an_old_one_is_overdue() -> None:
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


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_final_map_is_that_of_a_naive_model(memory: Path, data: st.DataObject) -> None:
    """Random keys, tombstones, transactions, rolls, rounds and crashes; the visible state never differs."""
    directory = Path(tempfile.mkdtemp(dir=memory)) / "orders-0"
    log = open_at(directory, COMPACT)
    checkpoint: int | None = None
    sequences: dict[int, int] = {}
    open_transactions: set[int] = set()
    now_ms = NOW_MS
    keys = st.sampled_from("abcd")
    for step in range(data.draw(st.integers(5, 40), label="steps")):
        action = data.draw(
            st.sampled_from(["put", "put", "put", "delete", "transact", "end", "roll", "clean", "crash"]),
            label="action",
        )
        if action == "put":
            put(log, *[(data.draw(keys), f"{step}.{n}") for n in range(data.draw(st.integers(1, 3)))])
        elif action == "delete":
            put(log, (data.draw(keys), None))
        elif action == "transact":
            producer_id = data.draw(st.integers(1, 3))
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + 1
            open_transactions.add(producer_id)
            put(log, (data.draw(keys), f"{step}"), producer=(producer_id, 0, sequence))
        elif action == "end" and open_transactions:
            producer_id = data.draw(st.sampled_from(sorted(open_transactions)))
            open_transactions.discard(producer_id)
            end(log, producer_id, commit=data.draw(st.booleans()))
        elif action == "roll":
            log.roll()
        elif action == "clean":
            before = visible(log)
            now_ms += data.draw(st.sampled_from([0, HOUR_MS // 2, HOUR_MS + 1]))
            checkpoint = clean(log, now_ms=now_ms, checkpoint=checkpoint)
            after = visible(log)
            assert latest(after) == latest(before)
            assert set(after) <= set(before), "compaction only takes away"
            assert [offset for offset, _, _ in after] == sorted(offset for offset, _, _ in after)
        elif action == "crash":
            before = visible(log)
            log.flush()
            log.close(clean=False)
            log = open_at(directory, COMPACT)
            log.advance_high_watermark(log.log_end_offset)
            assert visible(log) == before
    log.close()


def test_a_crash_at_any_step_of_the_swap_leaves_the_old_or_the_new_log(tmp_path: Path) -> None:
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
    # What the checkpoints of the log dir said before the round: the new segments have other aborted transactions.
    marks = Marks(recovery_point=48, high_watermark=48, aborted=known_aborted(log))
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
        # As after the crash of a process (hints below the recovery point are trusted), and as after the loss of all.
        reopened = open_at(image, COMPACT, marks=marks if number % 2 else None)
        reopened.advance_high_watermark(reopened.log_end_offset)
        assert latest(visible(reopened)) == expected, image
        assert reopened.log_end_offset == 48
        assert not [path for path in image.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        reopened.close()


async def thread(work):  # type: ignore[no-untyped-def]
    return await asyncio.to_thread(work)


def dirty_dirs(directory: Path, config: LogConfig = COMPACT) -> tuple[LogDirs, Log]:
    """A log with three sealed segments that are worth a round."""
    dirs = LogDirs.open(StorageSettings((directory,), node_id=1), config_of=lambda topic: config, now_ms=NOW_MS)
    log = dirs.create("orders", 0)
    for n in range(30):
        put(log, (f"k{n % 3}", str(n)))
        if n % 10 == 9:
            log.roll()
    return dirs, log


def test_a_round_leaves_a_topic_of_the_same_name_alone_that_came_meanwhile(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, _ = dirty_dirs(tmp_path)

        async def slow(work):  # type: ignore[no-untyped-def]
            cleaned = await thread(work)
            dirs.delete("orders", 0, now_ms=NOW_MS)
            put(dirs.create("orders", 0), ("new", "kept"))
            return cleaned

        rounds = CompactionRounds(dirs, CleanerSettings(), slow)
        assert await rounds.run_one(NOW_MS) is None
        fresh = dirs.log("orders", 0)
        assert fresh is not None and visible(fresh) == [(0, b"new", b"kept")] and fresh.active_segment.path.exists()
        assert not [path for path in fresh.directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        dirs.close()

    asyncio.run(go())


def test_a_log_whose_files_went_while_it_was_read_is_cleaned_the_next_time(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)
        meddling = True

        async def slow(work):  # type: ignore[no-untyped-def]
            if meddling:
                log.advance_log_start(10)
                dirs.delete_old_segments(NOW_MS)
                dirs.purge_trash(NOW_MS + HOUR_MS)
            return await thread(work)

        rounds = CompactionRounds(dirs, CleanerSettings(), slow)
        assert await rounds.run_one(NOW_MS) is None
        meddling = False
        assert await rounds.run_one(NOW_MS) is not None, "it was not set aside"
        assert [value for _, _, value in visible(log)] == [b"27", b"28", b"29"]
        dirs.close()

    asyncio.run(go())


def test_a_stop_ends_a_round_that_would_take_days_and_nothing_of_it_stays(tmp_path: Path) -> None:
    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path)
        before = visible(log)
        rounds = CompactionRounds(dirs, CleanerSettings(bytes_per_second=0.01), thread)
        running = asyncio.create_task(rounds.run_one(NOW_MS))
        await asyncio.sleep(0)
        rounds.stop()
        assert await asyncio.wait_for(running, 30) is None
        assert visible(log) == before
        assert not [path for path in log.directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
        dirs.close()

    asyncio.run(go())


def test_flushes_go_on_in_threads_while_segments_are_replaced_and_deleted(tmp_path: Path) -> None:
    """Names change under a flush that runs in a thread: none of that is a fault of the disk."""
    config = dataclasses.replace(COMPACT, segment_bytes=400, cleanup_policy=frozenset({"compact", "delete"}))

    async def go() -> None:
        dirs, log = dirty_dirs(tmp_path, config)
        rounds = CompactionRounds(dirs, CleanerSettings(), thread)
        stop = threading.Event()

        def flush() -> None:
            while not stop.is_set():
                log.recovery_point = 0
                log.flush()

        flushing = asyncio.create_task(thread(flush))
        for n in range(60):
            put(log, (f"k{n % 7}", str(n) * 20))
            if n % 6 == 5:
                await rounds.run_one(NOW_MS)
            if n % 20 == 19:
                log.advance_log_start(log.segments[1].base_offset)
                dirs.delete_old_segments(NOW_MS)
            await asyncio.sleep(0)
        stop.set()
        await flushing
        assert log.offline_reason is None and not dirs.offline
        assert latest(visible(log)).keys() >= {b"k0", b"k6"}
        dirs.close()

    asyncio.run(go())


def test_rounds_take_the_dirtiest_log_and_remember_how_far_they_came(tmp_path: Path) -> None:
    async def go() -> None:
        places = StorageSettings(directories=(tmp_path / "data",), node_id=1)
        dirs = LogDirs.open(places, config_of=lambda topic: COMPACT, now_ms=NOW_MS)
        few, many = dirs.create("few", 0, None), dirs.create("many", 0, None)
        for n in range(100):
            put(many, (f"k{n % 3}", str(n)))
        put(few, ("a", "1"))
        for log in (few, many):
            log.roll()

        rounds = CompactionRounds(dirs, CleanerSettings(), thread)
        while await rounds.run_one(NOW_MS) is not None:
            pass
        assert len(visible(many)) == 3
        text = (tmp_path / "data" / CHECKPOINT_FILE).read_text()
        assert "many 0 100" in text
        assert "few 0 1" in text
        dirs.close()

    asyncio.run(go())
