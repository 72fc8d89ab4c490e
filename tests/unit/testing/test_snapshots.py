"""Snapshots of data directories: one file, and copies that share what no broker writes again."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import headrace
from headrace.storage.dirs.log_dir import DirectoryInUse
from headrace.testing import assert_records, broker, load_snapshot, save_snapshot
from headrace.testing.snapshots import SnapshotCopies, SnapshotError

VALUES = [f"{number:0>1000}" for number in range(3000)]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of orders, and a group that has read ten records."""
    place = tmp_path_factory.mktemp("snapshots")
    with broker(data_dir=place / "data") as running:
        running.create_topic("orders", settings={"segment.bytes": "1048576"})
        with headrace.connect(running.bootstrap, settings={"log_level": 0}) as cluster:
            cluster.topic("orders", str).send_all(VALUES)
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "kitchen", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
        consumer.close()
        with pytest.raises(DirectoryInUse):
            save_snapshot(place / "data", place / "running.snapshot")
    saved = save_snapshot(place / "data", place / "orders.snapshot")
    assert "orders" in saved.topics
    return place / "orders.snapshot"


def test_a_broker_continues_with_the_topics_and_groups_of_a_snapshot(snapshot: Path) -> None:
    with broker(snapshot=snapshot) as running:
        assert_records(running, "orders", VALUES)
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "kitchen", "log_level": 0})
        assert consumer.committed([TopicPartition("orders", 0)], 20)[0].offset == 10
        consumer.close()


def test_what_one_test_writes_or_deletes_is_not_in_the_next(snapshot: Path) -> None:
    with broker({"file.delete.delay.ms": "0"}, snapshot=snapshot) as running:
        with headrace.connect(running.bootstrap, settings={"log_level": 0}) as cluster:
            cluster.topic("orders", str).send("one more")
            cluster.flush()
            running.clock.advance(days=30)
            cluster.topics.delete("orders")
        running.clock.advance(days=1)
    with broker(snapshot=snapshot) as running:
        assert_records(running, "orders", VALUES)


def test_copies_share_rolled_segments_and_a_broker_changes_none_of_them(snapshot: Path, tmp_path: Path) -> None:
    unpacked, copy = tmp_path / "unpacked", tmp_path / "copy"

    def make_directory() -> Path:
        unpacked.mkdir()
        return unpacked

    copies = SnapshotCopies(make_directory)
    copies.copy_to(snapshot, copy)
    logs = sorted((copy / "orders-0").glob("*.log"))
    links = [one.stat().st_nlink for one in logs]
    # How many segments there are depends on the batches of the client.
    assert len(links) > 2 and links == [*[2] * (len(links) - 1), 1], "only the newest segment is written again"
    before = digests(unpacked)
    with broker(data_dir=copy) as running:
        with headrace.connect(running.bootstrap, settings={"log_level": 0}) as cluster:
            cluster.topic("orders", str).send_all(VALUES)
        running.kill()
    with broker(data_dir=copy) as running:
        assert_records(running, "orders", [*VALUES, *VALUES])
    assert digests(unpacked) == before
    copies.remove()
    assert not unpacked.exists()


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_same_directory_gives_the_same_copy(snapshot: Path, tmp_path: Path) -> None:
    load_snapshot(snapshot, tmp_path / "copy")
    save_snapshot(tmp_path / "copy", tmp_path / "again.snapshot")
    load_snapshot(tmp_path / "again.snapshot", tmp_path / "second")
    assert {**digests(tmp_path / "copy"), ".lock": ""} == {**digests(tmp_path / "second"), ".lock": ""}


def test_wrong_directories_and_files_are_named(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match=r"empty is no data directory of a broker"):
        save_snapshot(tmp_path / "empty", tmp_path / "x")
    with broker(data_dir=tmp_path / "killed") as running:
        running.kill()
    with pytest.raises(SnapshotError, match="was not shut down cleanly"):
        save_snapshot(tmp_path / "killed", tmp_path / "x")
    with pytest.raises(SnapshotError, match="is not empty"):
        load_snapshot(snapshot, tmp_path / "killed")
    with pytest.raises(SnapshotError, match="no such file"):
        load_snapshot(tmp_path / "nowhere", tmp_path / "target")
    with pytest.raises(SnapshotError, match="No such file"), broker(snapshot=tmp_path / "nowhere"):
        pass
    (tmp_path / "text").write_text("tea")
    with pytest.raises(SnapshotError, match="cannot be read as a snapshot"):
        load_snapshot(tmp_path / "text", tmp_path / "target")
    (tmp_path / "cut").write_bytes(snapshot.read_bytes()[:2000])
    with pytest.raises(SnapshotError, match="cannot be read as a snapshot"):
        load_snapshot(tmp_path / "cut", tmp_path / "target")


@pytest.mark.parametrize("name", ["data/../../outside", "/outside", "other/file"])
def test_an_archive_cannot_write_outside_its_directory(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil", "w:gz") as archive:
        about = b'{"format": 1, "topics": [], "files": 1, "bytes": 3}'
        for entry, data in (("headrace-snapshot.json", about), (name, b"tea")):
            info = tarfile.TarInfo(entry)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(SnapshotError, match="belongs to no snapshot"):
        load_snapshot(tmp_path / "evil", tmp_path / "target")
    assert not (tmp_path / "outside").exists()
