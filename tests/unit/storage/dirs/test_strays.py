"""Strays: their notes, how they are restored, and which directories a broker deletes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.checkpoints import CLEANER_FILE, read_offsets, read_topic_id, write_offsets
from headrace.storage.dirs.restoration import CannotRestore, restore
from headrace.storage.dirs.strays import NOTE_FILE, Stray, StrayKind, remove_stray, strays_in
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, open_dirs, read_all, read_batches

OLD_ID, NEW_ID = uuid.UUID(int=1 << 90), uuid.UUID(int=2 << 90)
SEGMENTS = LogConfig(segment_bytes=1500, file_delete_delay_ms=0)


def stray_of(directory: Path, *, topic: str = "orders", batches: int = 20, deleted_below: int = 0) -> Stray:
    """A log of several segments over three leader epochs, set aside."""
    dirs = open_dirs(directory, config=SEGMENTS, cluster_id="ours")
    log = dirs.create(topic, 0, OLD_ID)
    for at in range(batches):
        append(log, a_batch(5, value=bytes(40)), epoch=3 + at // 7)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(deleted_below)
    dirs.set_aside(topic, 0, "a test says so", now_ms=NOW_MS)
    dirs.close()
    [stray] = strays_in(directory)
    return stray


def cut_of(directory: Path) -> Stray:
    """The stray of a log of twenty batches whose sixth is damaged: recovery kept five and cut fourteen valid ones."""
    dirs = open_dirs(directory)
    log = dirs.create("orders", 0, OLD_ID)
    for _ in range(20):
        append(log, a_batch(5, value=bytes(40)), epoch=3)
    sixth = read_batches(log)[5].size_bytes * 6
    dirs.close(clean=False)
    path = directory / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[sixth - 1] ^= 1
    path.write_bytes(data)
    open_dirs(directory, now_ms=NOW_MS).close()
    [stray] = strays_in(directory)
    return stray


def create(directory: Path, topic: str, topic_id: uuid.UUID, *, records: int = 0) -> None:
    dirs = open_dirs(directory, config=SEGMENTS)
    log = dirs.create(topic, 0, topic_id)
    if records:
        append(log, a_batch(records))
    dirs.close()


def test_stray_note_has_time_reason_and_offsets(tmp_path: Path) -> None:
    stray = stray_of(tmp_path, deleted_below=7)
    note = stray.note
    assert note is not None
    assert (note.kind, note.topic, note.partition, note.topic_id) == (StrayKind.LOG, "orders", 0, OLD_ID)
    assert (note.first_offset, note.end_offset, note.cluster_id) == (7, 100, "ours")
    assert (note.set_aside_ms, note.reason) == (NOW_MS, "a test says so")
    assert stray.offsets() == (7, 100) and stray.count_records() == 100
    assert stray.path.name.startswith("orders-0.") and stray.path.name.endswith("-stray")


def test_a_stray_without_a_note_is_listed_by_its_files(tmp_path: Path) -> None:
    """Apache Kafka writes no note."""
    stray = stray_of(tmp_path)
    (stray.path / NOTE_FILE).unlink()
    [bare] = strays_in(tmp_path)
    assert (bare.topic, bare.partition, bare.topic_id, bare.note) == ("orders", 0, OLD_ID, None)
    assert bare.offsets() == (0, 100) and bare.count_records() == 100


def test_a_topic_with_the_longest_name_keeps_its_partition_number(tmp_path: Path) -> None:
    stray = stray_of(tmp_path, topic="x" * 249)
    assert len(stray.path.name) == 255 and stray.partition == 0
    assert stray.topic == "x" * 249, "the note has the whole name"


def test_a_broker_neither_opens_nor_deletes_a_stray(tmp_path: Path) -> None:
    stray = stray_of(tmp_path)
    files = {path.name: path.read_bytes() for path in stray.path.iterdir()}
    for _ in range(2):
        dirs = open_dirs(tmp_path, now_ms=NOW_MS * 2)
        assert dirs.logs() == [] and dirs.strays() == [stray]
        dirs.deletions.purge(NOW_MS * 3)
        dirs.close()
    assert {path.name: path.read_bytes() for path in stray.path.iterdir()} == files


@pytest.mark.parametrize("name", ["orders-delete", "orders-0-delete", "orders-0.backup-delete", "x-0.stray", "strays"])
def test_only_directories_with_the_deletion_suffix_are_deleted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / f"{0:020d}.log").write_bytes(b"a person's copy")
    marked = tmp_path / f"orders-0.{uuid.uuid4().hex}-delete"
    marked.mkdir()
    dirs = open_dirs(tmp_path, now_ms=NOW_MS)
    dirs.deletions.purge(NOW_MS)
    dirs.close()
    assert (tmp_path / name / f"{0:020d}.log").exists() and not marked.exists()


def test_broker_does_not_write_into_a_directory_of_another_topic(tmp_path: Path) -> None:
    create(tmp_path / "elsewhere", "orders", OLD_ID, records=9)
    dirs = open_dirs(tmp_path / "data")
    (tmp_path / "elsewhere" / "orders-0").rename(tmp_path / "data" / "orders-0")
    log = dirs.create("orders", 0, NEW_ID, now_ms=NOW_MS)
    assert log.log_end_offset == 0 and log.topic_id == NEW_ID
    [stray] = dirs.strays()
    assert (stray.topic_id, stray.offsets(), stray.count_records()) == (OLD_ID, (0, 9), 9)
    dirs.close()


# Coming back


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_log_is_restored_unchanged_if_its_partition_has_no_log(tmp_path: Path, clean: bool) -> None:
    stray = stray_of(tmp_path, deleted_below=7)
    if not clean:
        open_dirs(tmp_path).close(clean=False)
    done = restore(stray)
    assert (done.directory, done.first_offset, done.end_offset, done.adopted) == (tmp_path / "orders-0", 7, 100, False)
    dirs = open_dirs(tmp_path, config=SEGMENTS)
    log = dirs.log("orders", 0)
    assert log is not None and log.topic_id == OLD_ID
    assert [record.offset for record in read_all(log)][-1] == 99 and log.log_start_offset == 7
    assert log.leader_epochs.latest == 5, "its own leader epochs"
    assert strays_in(tmp_path) == [] and not (log.directory / NOTE_FILE).exists()
    dirs.close()


@pytest.mark.parametrize("to", [None, "other"])
def test_restored_log_replaces_an_empty_log_and_belongs_to_its_topic(tmp_path: Path, to: str | None) -> None:
    stray = stray_of(tmp_path)
    create(tmp_path, to or "orders", NEW_ID)
    done = restore(stray, to)
    assert done.adopted and read_topic_id(done.directory) == NEW_ID
    dirs = open_dirs(tmp_path, config=SEGMENTS)
    log = dirs.log(to or "orders", 0)
    assert log is not None and log.topic_id == NEW_ID and log.log_end_offset == 100
    assert len(read_all(log)) == 100 and {b.partition_leader_epoch for b in read_batches(log)} == {0}
    assert log.leader_epochs.entries == [(0, 0)]
    append(log, a_batch(1), epoch=1)
    dirs.close(clean=False)
    again = open_dirs(tmp_path, config=SEGMENTS)
    log = again.log(to or "orders", 0)
    assert log is not None and log.log_end_offset == 101 and not again.damages
    again.close()


def test_marks_of_the_empty_log_do_not_apply_to_the_restored_one(tmp_path: Path) -> None:
    """It had more records, which were all deleted: the restored log would count as one that has lost its end."""
    stray, place = stray_of(tmp_path), TopicPartition("orders", 0)
    create(tmp_path, "orders", NEW_ID, records=3)
    dirs = open_dirs(tmp_path, config=SEGMENTS)
    log = dirs.log("orders", 0)
    assert log is not None
    log.truncate_fully_and_start_at(200)
    dirs.close()
    write_offsets(tmp_path / CLEANER_FILE, {place: 150, TopicPartition("other", 0): 7})
    restore(stray)
    dirs = open_dirs(tmp_path, config=SEGMENTS)
    [home] = dirs.directories
    assert home.recovery_point_at_start(place) <= 100 and home.clean_offsets.get(place) is None
    assert read_offsets(tmp_path / CLEANER_FILE) == {TopicPartition("other", 0): 7}
    dirs.close()


def test_restore_refuses_to_replace_a_log_with_records(tmp_path: Path) -> None:
    stray = stray_of(tmp_path)
    create(tmp_path, "orders", NEW_ID, records=3)
    with pytest.raises(CannotRestore, match=r"orders-0 holds records already \(offsets 0 to 2\).*--to TOPIC"):
        restore(stray)
    assert stray.count_records() == 100


def test_restore_to_a_missing_topic_asks_to_create_it_first(tmp_path: Path) -> None:
    stray = stray_of(tmp_path)
    with pytest.raises(CannotRestore, match=r"holds no log of other-0: start the broker, create topic other"):
        restore(stray, "other")
    assert stray.count_records() == 100


def test_cut_is_not_restored_to_the_log_it_was_cut_from(tmp_path: Path) -> None:
    stray = cut_of(tmp_path)
    with pytest.raises(CannotRestore, match=r"cannot go back there.*--to TOPIC"):
        restore(stray)


def test_whole_batches_of_a_cut_are_copied_to_another_topic_with_their_offsets(tmp_path: Path) -> None:
    stray = cut_of(tmp_path)
    assert stray.count_records() == 70 and stray.offsets() == (25, 100)
    create(tmp_path, "rescued", NEW_ID)
    done = restore(stray, "rescued")
    assert (done.first_offset, done.end_offset) == (30, 100)
    dirs = open_dirs(tmp_path)
    log = dirs.log("rescued", 0)
    assert log is not None and [record.offset for record in read_all(log)] == list(range(30, 100))
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (30, 100, [(0, 30)])
    assert [one.path for one in dirs.strays()] == [stray.path], "the stray stays until a person removes it"
    dirs.close(clean=False)
    again = open_dirs(tmp_path)
    assert not again.damages
    again.close()


def test_a_removed_stray_is_gone(tmp_path: Path) -> None:
    remove_stray(stray_of(tmp_path))
    assert strays_in(tmp_path) == []
