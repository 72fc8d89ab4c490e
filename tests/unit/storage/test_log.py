"""The log of a partition: consecutive offsets, reads of whole batches, high watermark, rolling and truncation."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.errors import CorruptBatch, ErrorCode, Fault, OffsetOutOfRange, StorageFault
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.storage.dirs.checkpoints import LEADER_EPOCH_FILE, read_epochs
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.log_config import LogConfig
from headrace.storage.segment.segment import Segment
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at, read_all, read_batches

SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=256, segment_index_bytes=8192)


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


def test_offsets_count_from_zero_without_a_gap(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    assert [append(log, a_batch(count)) for count in (1, 5, 2)] == [(0, 0), (1, 5), (6, 7)]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 8, 0)
    assert [record.offset for record in read_all(log)] == list(range(8))


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=60),
    max_bytes=st.integers(1, 6000),
    interval=st.sampled_from([1, 200, 4096]),
    data=st.data(),
)
def test_read_at_any_offset_returns_whole_batches_from_the_one_that_contains_it(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], max_bytes: int, interval: int, data: st.DataObject
) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=interval, segment_index_bytes=8192)
    log = open_at(tmp_path_factory.mktemp("log"), config)
    for count in counts:
        append(log, a_batch(count, value=b"v" * count * 7))
    if data.draw(st.booleans()):
        log.close()
        log = open_at(log.directory, config, clean=True)
    offset = data.draw(st.integers(0, log.log_end_offset - 1))
    up_to = data.draw(st.none() | st.integers(0, log.log_end_offset + 2))
    everything = read_batches(log)
    piece = log.read(offset, max_bytes, up_to=up_to)
    # Expected: all batches from the one with the offset on, below the bound, within one segment and the size.
    first = next(at for at, batch in enumerate(everything) if batch.last_offset >= offset)
    bound = log.log_end_offset if up_to is None else min(up_to, log.log_end_offset)
    segment_end = min(
        (s.base_offset for s in log.segments.all if s.base_offset > everything[first].base_offset), default=10**9
    )
    expected: list[Any] = []
    size = 0
    for batch in everything[first:]:
        if batch.last_offset >= bound or batch.base_offset >= segment_end or offset >= bound:
            break
        if expected and size + batch.size_bytes > max_bytes:
            break
        expected.append(batch)
        size += batch.size_bytes
    if not expected:
        assert piece is None
        return
    assert piece is not None
    assert os.pread(piece.file.fileno(), piece.length, piece.position) == b"".join(bytes(b.data) for b in expected)


def test_read_with_a_small_buffer_returns_one_batch_only_with_min_one_batch(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(1, value=b"x" * 500))
    append(log, a_batch(1, value=b"x" * 500))
    piece = log.read(0, 10)
    assert piece is not None and 500 < piece.length < 700
    assert log.read(0, 10, min_one_batch=False) is None


def test_read_outside_the_log_is_out_of_range_and_at_its_end_is_empty(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(3))
    assert log.read(3, 100) is None
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)


def test_a_slice_stays_readable_after_its_segment_is_deleted(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(segment_bytes=200, retention_ms=0, file_delete_delay_ms=0))
    for _ in range(5):
        append(log, a_batch(1, value=b"x" * 100))
    log.advance_high_watermark(5)
    piece = log.read(0, 1000)
    assert piece is not None
    log.delete_old_segments(NOW_MS + 10_000)
    log.segments.deletions.purge(NOW_MS + 20_000)
    assert not (tmp_path / "00000000000000000000.log").exists()
    assert BatchView(memoryview(os.pread(piece.file.fileno(), piece.length, piece.position))).base_offset == 0


def test_high_watermark_never_moves_back_or_past_the_log_end(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(5))
    log.advance_high_watermark(3)
    log.advance_high_watermark(2)
    assert log.high_watermark == 3
    log.advance_high_watermark(100)
    assert log.high_watermark == log.last_stable_offset == 5


def test_deleted_records_are_unreadable_at_once(tmp_path: Path) -> None:
    log = open_at(tmp_path, SMALL)
    for _ in range(100):
        append(log, a_batch(2, value=b"x" * 50))
    log.advance_high_watermark(150)
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(151)
    log.advance_log_start(101)
    assert log.log_start_offset == 101
    with pytest.raises(OffsetOutOfRange):
        log.read(100, 1000)
    before = len(log.segments.all)
    log.delete_old_segments(NOW_MS)
    assert len(log.segments.all) < before and log.log_start_offset == 101
    assert read_all(log)[1].offset == 101, "the batch that holds the start begins below it"


def test_too_large_batch_is_refused_without_a_change(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(max_message_bytes=300, segment_bytes=250))
    for size, code in ((400, ErrorCode.message_too_large), (200, ErrorCode.record_list_too_large)):
        with pytest.raises(Fault) as refusal:
            append(log, a_batch(1, value=b"x" * size))
        assert refusal.value.code is code
    assert log.log_end_offset == 0 and log.size_bytes == 0


def test_a_batch_that_is_too_large_in_the_topics_compression_is_refused(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(max_message_bytes=1000, compression_type="uncompressed"))
    assert append(log, a_batch(1, value=bytes(500), codec=Codec.GZIP)) == (0, 0)
    with pytest.raises(Fault) as refusal:
        append(log, a_batch(1, value=bytes(100_000), codec=Codec.GZIP))
    assert refusal.value.code is ErrorCode.message_too_large
    assert log.log_end_offset == 1


def patched(data: bytearray, at: int, form: str, value: int, *, sealed: bool = True) -> bytearray:
    struct.pack_into(form, data, at, value)
    if sealed:
        BatchView(memoryview(data)).seal()
    return data


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (patched(a_batch(3), 17, ">I", 1, sealed=False), ErrorCode.corrupt_message),
        (patched(a_batch(3), 8, ">i", 13, sealed=False), ErrorCode.corrupt_message),
        (patched(a_batch(3), 16, ">b", 3, sealed=False), ErrorCode.corrupt_message),
        (patched(a_batch(3), 16, ">b", 1, sealed=False), ErrorCode.invalid_record),
        (patched(a_batch(3), 57, ">i", -3), ErrorCode.invalid_record),
        (patched(a_batch(3), 23, ">i", 1), ErrorCode.invalid_record),
        (a_batch(1, value=bytes(2000)), ErrorCode.message_too_large),
        (a_batch(2, key=None), ErrorCode.invalid_record),
        (a_batch(2, timestamps=[NOW_MS, NOW_MS + 501]), ErrorCode.invalid_timestamp),
        (a_batch(2, timestamps=[NOW_MS, NOW_MS - 1001]), ErrorCode.invalid_timestamp),
    ],
    ids=["crc", "length", "magic", "old magic", "count", "offsets", "too large", "no key", "too new", "too old"],
)
def test_invalid_batch_is_refused_without_a_change(tmp_path: Path, bad: bytearray, code: ErrorCode) -> None:
    config = LogConfig(
        max_message_bytes=1000,
        cleanup_policy=frozenset({"compact"}),
        message_timestamp_before_max_ms=1000,
        message_timestamp_after_max_ms=500,
    )
    log = open_at(tmp_path, config)
    append(log, a_batch(2), epoch=3)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(Fault) as refusal:
        append(log, bad, epoch=4)
    assert refusal.value.code is code and refusal.value.message
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert append(log, a_batch(1), epoch=4) == (2, 2) and log.leader_epochs.entries == [(3, 0), (4, 2)]


def test_append_time_topic_returns_the_append_time(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    appended = log.append_as_leader(a_batch(2, timestamps=[1, 2]), leader_epoch=0, now_ms=NOW_MS)
    assert appended.log_append_time_ms == NOW_MS
    assert {record.timestamp_ms for record in read_all(log)} == {NOW_MS}
    assert (
        open_at(tmp_path / "other").append_as_leader(a_batch(), leader_epoch=0, now_ms=NOW_MS).log_append_time_ms == -1
    )


def test_a_follower_keeps_the_leaders_bytes(tmp_path: Path) -> None:
    leader, follower = open_at(tmp_path / "leader", SMALL), open_at(tmp_path / "follower", SMALL)
    for at in range(200):
        append(leader, a_batch(1 + at % 4, value=b"x" * 60, codec=Codec(at % 5)), epoch=at // 70)
    offset = 0
    while (piece := leader.read(offset, 1500)) is not None:
        data = os.pread(piece.file.fileno(), piece.length, piece.position)
        torn = data + data[:30]
        offset = follower.append_as_follower(memoryview(torn)).last_offset + 1
    assert [bytes(b.data) for b in read_batches(follower)] == [bytes(b.data) for b in read_batches(leader)]
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.log_end_offset == leader.log_end_offset


def test_follower_accepts_offset_gaps_but_no_lower_offset(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    log.append_as_follower(memoryview(build_batch([Record(b"a", b"1")], base_offset=10, leader_epoch=0)))
    assert log.append_as_follower(memoryview(build_batch([Record(b"a", b"2")], base_offset=99))).first_offset == 99
    with pytest.raises(CorruptBatch):
        log.append_as_follower(memoryview(build_batch([Record(b"a", b"3")], base_offset=50)))
    assert [record.offset for record in read_all(log)] == [10, 99]


@pytest.mark.parametrize("first", [100, 1 << 31], ids=["skipped", "too far for the empty first segment"])
def test_a_reader_below_the_first_segment_misses_no_batch(tmp_path: Path, first: int) -> None:
    """A new replica of a compacted log: the leader's log starts at 0, and compaction has removed all before `first`."""
    log = open_at(tmp_path / "orders-0")
    if first == 100:
        log.skip_to(first, now_ms=NOW_MS)
    for offset in range(first, first + 3):
        batch = build_batch([Record(b"key", b"value")], base_offset=offset)
        log.append_as_follower(memoryview(batch))
        if offset < first + 2:
            log.roll()
    assert log.log_start_offset == 0
    assert [batch.base_offset for batch in read_batches(log)] == [first, first + 1, first + 2]
    assert log.read(0, 1 << 20, up_to=first) is None


def test_coordinator_records_skip_the_rules_for_clients(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    appended = log.append_as_leader(
        a_batch(1, key=None), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    assert appended.first_offset == 0


# Rolling


def bases(log: object) -> list[int]:
    return [segment.base_offset for segment in log.segments.all]  # type: ignore[attr-defined]


def test_segment_never_exceeds_segment_bytes(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(segment_bytes=1000))
    for _ in range(30):
        append(log, a_batch(1, value=b"x" * 100))
    assert all(segment.size_bytes <= 1000 for segment in log.segments.all) and len(log.segments.all) > 4
    assert read_all(log)[-1].offset == 29


def test_segment_rolls_when_its_records_span_segment_ms(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(segment_ms=1000))
    for at in (0, 500, 1000, 1001, 1500, 2002):
        append(log, a_batch(1, timestamps=[NOW_MS + at]))
    assert bases(log) == [0, 3, 5]


def test_segment_rolls_when_its_index_is_full(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(index_interval_bytes=1, segment_index_bytes=80))
    for _ in range(40):
        append(log, a_batch(1, timestamps=[NOW_MS]))
    assert len(log.segments.all) > 2 and all(segment.offset_index.file.count <= 10 for segment in log.segments.all)


def test_segment_rolls_before_relative_offsets_exceed_32_bits(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for base in (5, 5 + 2**31 - 1, 6 + 2**31 - 1):
        log.append_as_follower(memoryview(build_batch([Record(b"a", b"1", timestamp_ms=NOW_MS)], base_offset=base)))
    assert bases(log) == [0, 2**31 + 4]
    assert [record.offset for record in read_all(log)] == [5, 2**31 + 4, 2**31 + 5]


def test_index_files_are_preallocated_while_active_and_trimmed_after(tmp_path: Path) -> None:
    log = open_at(tmp_path, SMALL)
    for _ in range(60):
        append(log, a_batch(1, value=b"x" * 100))
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    active = f"{log.active_segment.base_offset:020d}"
    assert sizes[f"{active}.index"] == 8192 and sizes[f"{active}.timeindex"] == 8192 // 12 * 12
    old = log.segments.all[0]
    assert sizes["00000000000000000000.index"] == old.offset_index.file.count * 8 > 0
    log.close()
    assert (tmp_path / f"{active}.index").stat().st_size % 8 == 0
    assert (tmp_path / f"{active}.index").stat().st_size < 8192


def test_preallocated_data_files_are_trimmed_too(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=10_000, preallocate=True)
    log = open_at(tmp_path, config)
    append(log, a_batch(2))
    assert (tmp_path / "00000000000000000000.log").stat().st_size == 10_000
    crashed = read_all(open_at(tmp_path, config))
    assert [record.offset for record in crashed] == [0, 1], "zeros after the data are no data"
    log.close()
    assert (tmp_path / "00000000000000000000.log").stat().st_size == log.size_bytes


# Cutting


@settings(max_examples=40, deadline=None)
@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=50), data=st.data())
def test_truncated_log_equals_a_log_that_was_never_longer(memory: Path, counts: list[int], data: st.DataObject) -> None:
    config = LogConfig(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=8192)
    long, short = (open_at(Path(tempfile.mkdtemp(dir=memory)), config) for _ in range(2))
    for at, count in enumerate(counts):
        batch = a_batch(
            count, timestamps=[NOW_MS + (at * 37) % 50] * count, producer=(at % 3, 0, 0) if at < 3 else None
        )
        append(long, batch, epoch=at // 9)
    cut = data.draw(st.integers(0, long.log_end_offset))
    long.advance_high_watermark(data.draw(st.integers(0, long.log_end_offset)))
    for batch in read_batches(long):  # type: ignore[assignment]
        if batch.last_offset < cut:  # type: ignore[attr-defined]
            short.append_as_follower(batch.data, now_ms=NOW_MS)  # type: ignore[attr-defined]
    long.truncate_to(cut, now_ms=NOW_MS)
    whole = next((b.base_offset for b in read_batches(long) if b.last_offset >= cut), None)
    assert whole is None
    assert long.log_end_offset <= cut and long.high_watermark <= long.log_end_offset
    assert [bytes(b.data) for b in read_batches(long)] == [bytes(b.data) for b in read_batches(short)]
    assert long.leader_epochs.entries == short.leader_epochs.entries
    assert long.producers.entries.keys() == short.producers.entries.keys()
    assert long.offset_of_max_timestamp() == short.offset_of_max_timestamp()
    first = append(long, a_batch(2), epoch=50)[0]
    assert first == long.log_end_offset - 2
    reopened = open_at(long.directory, config)
    assert [bytes(b.data) for b in read_batches(reopened)] == [bytes(b.data) for b in read_batches(long)]


def test_truncation_inside_a_batch_removes_the_whole_batch(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(3))
    append(log, a_batch(5))
    log.truncate_to(6)
    assert log.log_end_offset == 3
    assert append(log, a_batch(1)) == (3, 3)


def test_follower_far_behind_starts_over_at_the_leaders_log_start(tmp_path: Path) -> None:
    log = open_at(tmp_path, SMALL)
    for _ in range(100):
        append(log, a_batch(1, value=b"x" * 100, producer=None))
    log.truncate_fully_and_start_at(5000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5000, 5000, 5000)
    assert log.leader_epochs.entries == [] and len(log.segments.all) == 1
    assert append(log, a_batch(1)) == (5000, 5000)
    assert {path.name for path in tmp_path.glob("*.log")} == {"00000000000000005000.log"}


def during_before_cut(log: Log, patched: pytest.MonkeyPatch, use: Callable[[], None]) -> None:
    patched.setattr(log, "_before_cut", lambda end: use())


def during_the_cut(log: Log, patched: pytest.MonkeyPatch, use: Callable[[], None]) -> None:
    real_remove = Segment.remove
    patched.setattr(Segment, "remove", lambda segment: (real_remove(segment), use()))


def after_the_cut(log: Log, patched: pytest.MonkeyPatch, use: Callable[[], None]) -> None:
    real_rebuild = log.producers.rebuild
    patched.setattr(log.producers, "rebuild", lambda *of: (real_rebuild(*of), use()))


@pytest.mark.parametrize("at", [during_before_cut, during_the_cut, after_the_cut])
@pytest.mark.parametrize("began_before", [True, False])
def test_no_flush_raises_the_recovery_point_during_a_truncation(
    tmp_path: Path,
    at: Callable[[Log, pytest.MonkeyPatch, Callable[[], None]], None],
    began_before: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flush runs in a thread. A checkpoint of that moment would name records that the log no longer has."""
    log = open_at(tmp_path)
    for _ in range(4):
        append(log, a_batch(3))
        log.roll()
    syncs, may_sync = threading.Event(), threading.Event()
    real_sync = Segment.sync

    def sync(segment: Segment) -> None:
        syncs.set()
        may_sync.wait(10)
        real_sync(segment)

    flush = threading.Thread(target=log.flush)
    seen: list[int] = []

    def flush_now() -> None:
        may_sync.set()
        if flush.ident is None:
            flush.start()
        flush.join(10)
        seen.append(log.recovery_point)

    at(log, monkeypatch, flush_now)
    monkeypatch.setattr(Segment, "sync", sync)
    if began_before:
        flush.start()
        assert syncs.wait(10)
    log.truncate_to(4)
    assert log.log_end_offset == 3 and seen and max(seen) <= 3 and log.recovery_point <= 3
    append(log, a_batch(2))
    log.flush()
    assert log.recovery_point == 5, "a later flush raises it"


def test_append_with_a_new_epoch_writes_no_epoch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that returns begins an epoch in hundreds of partitions, and producers wait for it."""
    leader, follower = open_at(tmp_path / "leader"), open_at(tmp_path / "follower")
    append(leader, a_batch(1), epoch=1)
    follower.append_as_follower(memoryview(bytes(read_batches(leader)[0].data)))
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("a file was opened"))
    append(leader, a_batch(1), epoch=2)
    follower.append_as_follower(memoryview(bytes(read_batches(leader)[1].data)))
    monkeypatch.undo()
    assert leader.leader_epochs.entries == follower.leader_epochs.entries == [(1, 0), (2, 1)]
    assert leader.save_epochs() and not leader.save_epochs()
    follower.close()
    for log in (leader, follower):
        assert log.leader_epochs.path.read_text() == "0\n2\n1 0\n2 1\n"


def test_new_segment_never_overwrites_a_file_with_records(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0")
    append(log, a_batch(3))
    foreign = tmp_path / "orders-0" / f"{3:020d}.log"
    foreign.write_bytes(a_batch(5))
    with pytest.raises(StorageFault, match=r"00003\.log holds records that the log does not know"):
        log.roll()
    assert foreign.read_bytes() == a_batch(5)
    append(log, a_batch(1))
    foreign.write_bytes(bytes(4096))
    log.truncate_to(3)
    log.roll()
    assert append(log, a_batch(1)) == (3, 3), "space that was never written is used"


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_records_are_deleted_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeleteRecords is what frees space. The small file with the leader epochs can wait."""
    log = open_at(tmp_path)
    append(log, a_batch(5))
    append(log, a_batch(5), epoch=2)
    log.advance_high_watermark(10)
    with monkeypatch.context() as full:
        full.setattr("headrace.storage.leader_epochs.write_epochs", no_space)
        log.advance_log_start(7)
    assert log.log_start_offset == 7 and log.offline_reason is None
    assert log.save_epochs()
    assert read_epochs(tmp_path / LEADER_EPOCH_FILE) == [(2, 7)]


def test_retention_frees_a_full_disk_if_all_segments_are_to_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `kafka-delete-records` to the end, or if the disk was filled within one round of retention."""
    log = open_at(tmp_path, LogConfig(segment_bytes=200))
    for _ in range(3):
        append(log, a_batch(1, value=b"x" * 100))
    log.advance_high_watermark(3)
    log.advance_log_start(3)
    with monkeypatch.context() as full:
        full.setattr("headrace.storage.producer_state.write_small_file", no_space)
        assert log.delete_old_segments(NOW_MS).count == 2
        with pytest.raises(StorageFault):
            log.delete_old_segments(NOW_MS)
    assert log.delete_old_segments(NOW_MS).count == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.offline_reason is None


def test_a_batch_that_is_written_while_a_flush_begins_is_synced_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write gives up the interpreter, so a flush in a thread may begin in the middle of it. With `flush.before.ack`
    producers rely on the recovery point."""
    log = open_at(tmp_path)
    append(log, a_batch(1))
    data_file, pwrite, fsync = log.active_segment.file.fileno(), os.pwrite, os.fsync
    synced: list[int] = []

    def write_after_a_flush(fd: int, data: memoryview, position: int) -> int:
        if fd == data_file:
            log.flush()
        return pwrite(fd, data, position)

    def noted(fd: int) -> None:
        if fd == data_file:
            synced.append(os.fstat(fd).st_size)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "pwrite", write_after_a_flush)
    first = log.size_bytes
    append(log, a_batch(1))
    log.flush()
    assert log.recovery_point == 2 and synced == [first, log.size_bytes]


def test_a_flush_does_not_rely_on_the_unfinished_sync_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush timer and a group commit may flush one log at the same time."""
    log = open_at(tmp_path)
    append(log, a_batch(1))
    data_file, fsync = log.active_segment.file.fileno(), os.fsync
    begun = 0

    def fails_after_another_flush(fd: int) -> None:
        nonlocal begun
        if fd == data_file:
            begun += 1
            if begun == 1:
                log.flush()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fails_after_another_flush)
    with pytest.raises(StorageFault):
        log.flush()
    assert log.recovery_point == 0


def test_a_flush_repeats_a_sync_of_the_directory_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_at(tmp_path)
    append(log, a_batch(1))
    with monkeypatch.context() as full:
        full.setattr("headrace.storage.segments.sync_directory", no_space)
        for _ in range(2):
            with pytest.raises(StorageFault):
                log.flush()
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 1
