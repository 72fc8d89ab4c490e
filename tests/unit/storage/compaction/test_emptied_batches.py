"""Batches that compaction emptied: a new replica, a start after a crash and a later round read them correctly."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.kernel.checksum import crc32c
from headrace.kernel.errors import CorruptBatch
from headrace.records import raw
from headrace.records.batch import CRC_START, HEADER, NO_SEQUENCE, BatchView
from headrace.records.builder import Record, build_batch, build_writable_batch
from headrace.records.control import build_end_txn_marker
from headrace.storage.core.producers import Producers
from headrace.storage.files import SNAPSHOT_SUFFIX
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.recovery import inspection
from headrace.storage.recovery.recovery import PartitionCheckpoints
from tests.support.compacted_logs import COMPACT, HOUR_MS, clean, end, put, visible
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at, open_dirs, read_batches

# A producer whose transaction had version 2: its marker has the next epoch.
PRODUCER, EPOCH = 7, 1


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


def with_emptied_marker(directory: Path) -> Log:
    """[0] a plain record | [2] the emptied marker of a transaction at offset 1 | [4] another key."""
    log = open_at(directory, COMPACT)
    put(log, ("kept", "1"))
    put(log, ("a", "old"), producer=(PRODUCER, EPOCH - 1, 0))
    end(log, PRODUCER, commit=True, epoch=EPOCH)
    put(log, ("a", "new"))
    put(log, ("b", "1"))
    log.roll()
    put(log, ("c", "in the active segment"))
    now_ms = NOW_MS
    for _ in range(3):  # the record, the delete horizon of the marker, the marker
        clean(log, now_ms=now_ms)
        now_ms += HOUR_MS + 1
    shape = [(batch.base_offset, batch.is_control, batch.record_count) for batch in read_batches(log)]
    assert shape == [(0, False, 1), (2, True, 0), (3, False, 1), (4, False, 1), (5, False, 1)]
    return log


def with_open_transaction(log: Log) -> None:
    """Appends a record whose transaction is open."""
    put(log, ("d", "open"), producer=(8, 0, 0))
    assert log.last_stable_offset == 6


def bytes_of(log: Log) -> bytes:
    return b"".join(bytes(batch.data) for batch in read_batches(log))


def test_a_new_replica_knows_the_transactions_behind_an_emptied_marker(tmp_path: Path) -> None:
    log = with_emptied_marker(tmp_path / "orders-0")
    with_open_transaction(log)
    replica = open_at(tmp_path / "replica" / "orders-0", COMPACT)
    replica.append_as_follower(bytes_of(log))
    replica.advance_high_watermark(replica.log_end_offset)
    assert replica.last_stable_offset == 6, "a consumer must not read a record of an open transaction"
    assert visible(replica) == visible(log)
    end(replica, 8, commit=False)
    assert (6, b"d", b"open") not in visible(replica)


@pytest.mark.parametrize("lost", ["snapshots", "checkpoints", "both"])
def test_a_broker_starts_after_a_crash_with_an_emptied_marker(tmp_path: Path, lost: str) -> None:
    log = with_emptied_marker(tmp_path / "orders-0")
    with_open_transaction(log)
    expected = visible(log)
    log.flush()
    marks = PartitionCheckpoints(recovery_point=log.recovery_point if lost == "snapshots" else 0)
    log.close(clean=False)
    if lost != "checkpoints":
        for snapshot in (tmp_path / "orders-0").glob("*" + SNAPSHOT_SUFFIX):
            snapshot.unlink()
    again = open_at(tmp_path / "orders-0", COMPACT, marks=marks)
    again.advance_high_watermark(again.log_end_offset)
    assert visible(again) == expected and again.last_stable_offset == 6
    assert again.producers.entries[PRODUCER].epoch == EPOCH, "an older instance of the producer stays fenced"
    assert inspection.verify(tmp_path / "orders-0").problems == []


def emptied_by_kafka(batch: BatchView) -> bytes:
    """A batch as Apache Kafka's cleaner leaves it: a header with a delete horizon, and no record."""
    transactional, control, delete_horizon = 0x10, 0x20, 0x40
    attributes = transactional | (control if batch.is_control else 0) | delete_horizon
    fields = (batch.last_offset_delta, NOW_MS, batch.max_timestamp_ms)
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    data = bytearray(HEADER.pack(batch.base_offset, 49, 0, 2, 0, attributes, *fields, *producer, 0))
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[CRC_START:]))
    return bytes(data)


def test_a_directory_that_kafka_compacted_opens(tmp_path: Path) -> None:
    first = BatchView(memoryview(a_batch(2, producer=(PRODUCER, 0, 4), transactional=True)))
    commit = bytearray(build_end_txn_marker(True, 0, PRODUCER, 0, NOW_MS))
    commit[0:8] = struct.pack(">q", 2)
    marker = BatchView(memoryview(bytearray(build_end_txn_marker(True, 0, 9, 3, NOW_MS))))
    marker.patch_place(3, 0)
    directory = tmp_path / "orders-0"
    directory.mkdir()
    data = emptied_by_kafka(first) + bytes(commit) + emptied_by_kafka(marker)
    (directory / f"{0:020d}.log").write_bytes(data)
    for is_clean in (True, False):
        log = open_at(directory, COMPACT, clean=is_clean)
        log.advance_high_watermark(log.log_end_offset)
        assert (log.log_end_offset, log.last_stable_offset) == (4, 4)
        assert (log.producers.entries[PRODUCER].last_sequence, log.producers.entries[9].epoch) == (5, 3)
        log.close(clean=is_clean)


def test_an_emptied_marker_leaves_when_its_producer_has_newer_records(tmp_path: Path) -> None:
    log = with_emptied_marker(tmp_path / "orders-0")
    put(log, ("e", "1"), producer=(PRODUCER, EPOCH, 0))
    end(log, PRODUCER, commit=True, epoch=EPOCH + 1)
    put(log, ("e", "2"), producer=(PRODUCER, EPOCH + 1, 0))
    end(log, PRODUCER, commit=True, epoch=EPOCH + 2)
    put(log, ("e", "3"), producer=(PRODUCER, EPOCH + 2, 0))
    end(log, PRODUCER, commit=True, epoch=EPOCH + 3)
    log.roll()
    clean(log, now_ms=NOW_MS + 9 * HOUR_MS)
    log.producers.expire(NOW_MS + 99 * HOUR_MS, HOUR_MS)
    clean(log, now_ms=NOW_MS + 99 * HOUR_MS)
    assert 2 not in [batch.base_offset for batch in read_batches(log)], "else every producer leaves a batch for ever"


def with_commits(log: Log, numbered: bool) -> None:
    """Twenty transactions of one producer, each with one offset commit, as the group coordinator writes them. In 0.1.0
    their batches had no sequence."""
    for number in range(20):
        record = Record(b"key", b"%d" % number, timestamp_ms=NOW_MS)
        batch = build_writable_batch([record], (PRODUCER, EPOCH))
        if not numbered:
            batch = bytearray(
                build_batch([record], producer_id=PRODUCER, producer_epoch=EPOCH, transactional=True),
            )
        assert BatchView(memoryview(batch)).base_sequence == (0 if numbered else NO_SEQUENCE)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        end(log, PRODUCER, commit=True, epoch=EPOCH)
    put(log, ("other", "1"))


def compacted(log: Log) -> list[tuple[int, bool]]:
    """The batches after as many rounds as markers need to leave: (offset, whether it is a marker)."""
    for hours in (1, 3, 5, 7):
        log.roll()
        put(log, ("other", str(hours)))
        clean(log, now_ms=NOW_MS + hours * HOUR_MS)
    return [(batch.base_offset, batch.is_control) for batch in read_batches(log) if batch.producer_id == PRODUCER]


@pytest.mark.parametrize("numbered", [True, False], ids=["now", "0.1.0"])
@pytest.mark.parametrize("place", ["leader", "replica", "after a stop", "after a crash"])
def test_offset_commits_in_transactions_leave_no_marker_each(tmp_path: Path, place: str, numbered: bool) -> None:
    log = open_at(tmp_path / "orders-0", COMPACT)
    with_commits(log, numbered)
    if place == "replica":
        replica = open_at(tmp_path / "replica" / "orders-0", COMPACT)
        replica.append_as_follower(bytes_of(log))
        replica.advance_high_watermark(replica.log_end_offset)
        log = replica
    elif place != "leader":
        log.close(clean=place == "after a stop")
        log = open_at(tmp_path / "orders-0", COMPACT, clean=place == "after a stop")
        log.advance_high_watermark(log.log_end_offset)
    assert compacted(log) == [(38, False), (39, True)], "the last commit, with the marker that ends its transaction"
    assert log.producers.entries[PRODUCER].epoch == EPOCH


def test_a_replica_takes_no_batch_whose_control_record_it_cannot_read(tmp_path: Path) -> None:
    """The batches of the same answer would else be in the log, and their producers not in its state."""
    log = open_at(tmp_path / "orders-0")
    plain = build_batch([Record(b"a", b"1")], base_offset=0)
    marker = BatchView(memoryview(bytearray(build_end_txn_marker(True, 0, PRODUCER, 0, NOW_MS))))
    marker.patch_place(1, 0)
    bad = BatchView(memoryview(bytearray(raw.repacked(marker, b"\x10\0\0\0\1\1\1\0\0", 1, NOW_MS))))
    with pytest.raises(CorruptBatch):
        log.append_as_follower(plain + bytes(bad.data))
    assert (log.log_end_offset, log.size_bytes, log.offline_reason) == (0, 0, None)


def test_a_bug_behind_the_write_takes_the_log_offline_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Producers, batch: BatchView, now_ms: int) -> None:
        raise IndexError("list index out of range")

    dirs = open_dirs(tmp_path / "a")
    log, other = dirs.create("orders", 0), dirs.create("orders", 1)
    append(log, a_batch(producer=(PRODUCER, 0, 0)))
    with monkeypatch.context() as patched:
        patched.setattr(Producers, "appended", broken)
        with pytest.raises(IndexError):
            append(log, a_batch(producer=(PRODUCER, 0, 1)))
    assert "list index out of range" in (log.offline_reason or "") and other.offline_reason is None
    dirs.close()
    again = open_dirs(tmp_path / "a").log("orders", 0)
    assert again is not None and again.log_end_offset == 2 and again.producers.entries[PRODUCER].last_sequence == 1


def test_a_start_without_a_stale_snapshot_ends_a_transaction_that_compaction_removed(tmp_path: Path) -> None:
    """A snapshot is inside a transaction, and a round removes the transaction with its marker."""
    config = replace(COMPACT, segment_bytes=400)
    log = open_at(tmp_path / "orders-0", config)
    put(log, ("kept", "x" * 200))  # so that rounds do not join the two segments
    put(log, ("a", "old"), producer=(PRODUCER, 0, 0))
    log.roll()
    end(log, PRODUCER, commit=True)
    put(log, ("a", "new" * 50))
    log.roll()
    put(log, ("b", "1"))
    for hours in (1, 3, 5):
        log.producers.expire(NOW_MS + 99 * HOUR_MS, HOUR_MS)
        clean(log, now_ms=NOW_MS + hours * HOUR_MS)
    assert not any(batch.is_control for batch in read_batches(log))
    log.flush()
    log.close(clean=False)
    again = open_at(tmp_path / "orders-0", config, marks=PartitionCheckpoints(recovery_point=2))
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset, "consumers would wait for the end of a transaction"


def test_a_crash_after_a_round_keeps_the_producers_whose_records_were_deleted(tmp_path: Path) -> None:
    """Only a snapshot knows them, and another producer had a transaction open when it was taken."""
    config = replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}))
    log = open_at(tmp_path / "orders-0", config)
    put(log, ("a", "1"), producer=(PRODUCER, 0, 0))
    end(log, PRODUCER, commit=True)
    put(log, ("b", "1"), producer=(8, 0, 0))
    log.roll()
    end(log, 8, commit=True)
    put(log, ("c", "1"))
    log.roll()
    put(log, ("c", "2"))
    log.advance_log_start(3)
    assert log.delete_old_segments(NOW_MS).count == 1
    clean(log)
    log.flush()
    log.close(clean=False)
    marks = PartitionCheckpoints(recovery_point=3, log_start_offset=3)
    again = open_at(tmp_path / "orders-0", config, marks=marks)
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset == 6
    assert put(again, ("a", "1"), producer=(PRODUCER, 0, 0)) == 0 and again.log_end_offset == 6, "it is stored once"
    assert put(again, ("b", "2"), producer=(8, 0, 1)) == 6, "it continues"
