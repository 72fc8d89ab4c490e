"""A replica moves to another log directory while it serves. Whatever stops the move, one directory has every record."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.core.changes import TopicDeleted, apply
from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.config import load_broker_config
from headrace.coordinators.runtime.log import PartitionLog
from headrace.kernel.errors import ErrorCode, Fault, StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.replication.log_copy import LogCopy
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.replication.replica_moves import ReplicaMoves
from headrace.storage.dirs.checkpoints import write_epochs
from headrace.storage.dirs.future_logs import NOTE_FILE
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log, Slice
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import open_log
from headrace.storage.segment.segment import Segment
from tests.support.clock import wait_on_loop
from tests.support.crash_images import fill, state
from tests.support.crashing_files import FileCalls, Killed
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at, open_dirs, read_batches

EPOCH = 7
TOPIC_ID = uuid.UUID(int=5 << 90)
KEY = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=16_000, index_interval_bytes=4096, segment_index_bytes=16_384, file_delete_delay_ms=0)


class Broker:
    """Broker 1 with the log directories `a` and `b`. `orders-0` is created in `a`."""

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None, config: LogConfig = CONFIG) -> None:
        self.home = home
        self.cordoned: list[str] = []
        self.dirs: LogDirs = open_dirs(
            home / "a", home / "b", config=config, cluster_id="ours", now_ms=NOW_MS, cordoned=lambda: self.cordoned
        )
        self.view = ClusterView()
        self.partitions = Partitions(1, self.dirs, self.view, lambda topic, image: config, wall_ms=lambda: NOW_MS)
        self.partitions.registered_as(EPOCH)
        topic = TopicInfo("orders", TOPIC_ID, (PartitionInfo(1, 10, 0, (1,), (1,)), PartitionInfo(2, 0, 0, (2,), (2,))))
        self.image = ClusterImage(
            version=1,
            cluster_id="ours",
            brokers={1: BrokerInfo(1, EPOCH, ()), 2: BrokerInfo(2, 9, ())},
            topics={"orders": topic},
            topic_names={TOPIC_ID: "orders"},
        )
        self.view.publish(self.image)
        self.config = load_broker_config({}).with_dynamic(settings or {})
        self.moves = ReplicaMoves(self.dirs, self.partitions, lambda: self.config)

    @property
    def partition(self) -> Partition:
        found = self.partitions.get("orders", 0)
        assert found is not None
        return found

    @property
    def log(self) -> Log:
        found = self.dirs.log("orders", 0)
        assert found is not None and found is self.partition.log
        return found

    def append(self, count: int = 1) -> None:
        self.partition.append(memoryview(a_batch(count)), now_ms=NOW_MS)

    def move(self, directory: str = "b") -> None:
        self.moves.begin("orders", 0, str(self.home / directory))

    @property
    def is_in(self) -> str:
        return self.log.directory.parent.name

    async def moved(self, directory: str = "b") -> None:
        await wait_on_loop(lambda: self.is_in == directory and KEY not in self.dirs.futures, "the move to end")

    async def stop(self, *, clean: bool = True) -> None:
        await self.moves.close()
        self.partitions.close()
        self.dirs.close(clean=clean)

    def names(self) -> dict[str, list[str]]:
        """The directories of partitions, without the random part of their names."""
        return {
            name: sorted(
                path.name.partition(".")[0] + path.name.rpartition(".")[2][32:]
                for path in (self.home / name).iterdir()
                if path.is_dir()
            )
            for name in ("a", "b")
        }


def contents(log: Log) -> bytes:
    return b"".join(bytes(batch.data) for batch in read_batches(log))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker that was stopped with a log of several segments, epochs and producers in `a`."""
    home = tmp_path_factory.mktemp("filled")

    dirs = open_dirs(home / "a", home / "b", config=CONFIG, cluster_id="ours", now_ms=NOW_MS)
    log = dirs.create(*KEY, TOPIC_ID)
    assert log.directory.parent.name == "a"
    fill(log, 90)
    dirs.close()
    return home


@pytest.fixture
def home(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path / "data")
    return tmp_path / "data"


def test_a_move_keeps_every_record_producer_and_epoch_and_serves_meanwhile(home: Path) -> None:
    async def go() -> None:
        broker = Broker(home)
        old = broker.log
        broker.move()
        broker.append()
        before_ids = dict(old.producers.entries)
        while broker.is_in == "a":
            assert old.log_end_offset < 200_000, "the copy never reaches the end of a log that grows"
            broker.append()
            await asyncio.sleep(0)
        await broker.moved()
        broker.append(3)
        assert broker.log.log_end_offset > old.log_end_offset and broker.log is not old
        assert contents(broker.log).startswith(contents_of_retired(broker))
        assert broker.log.producers.entries == before_ids
        assert broker.names() == {"a": ["orders-0-delete"], "b": ["orders-0"]}
        assert not (broker.log.directory / NOTE_FILE).exists()
        after = state(broker.log)
        broker.dirs.purge_deletions(1 << 62)
        await broker.stop()
        again = Broker(home)
        assert again.names() == {"a": [], "b": ["orders-0"]}
        assert state(again.log)["bytes"] == after["bytes"] and state(again.log)["producers"] == after["producers"]
        assert state(again.log)["epochs"] == after["epochs"]
        await again.stop()

    def contents_of_retired(broker: Broker) -> bytes:
        [retired] = (broker.home / "a").glob("orders-0.*-delete")
        return b"".join(path.read_bytes() for path in sorted(retired.glob("*.log")))

    asyncio.run(go())


def test_a_coordinator_loads_its_whole_log_while_it_moves(home: Path) -> None:
    """After a start both go on at the same time: the load of the coordinator and the move that the stop interrupted."""

    async def go() -> None:
        broker = Broker(home)
        log = PartitionLog(broker.partition, load_bytes=1)
        chunks = log.read_from_start()
        loaded = [next(chunks)]
        broker.move()
        await broker.moved()
        loaded += chunks
        assert b"".join(loaded) == contents(broker.log)
        await broker.stop()

    asyncio.run(go())


def test_a_log_that_starts_inside_a_batch_moves(tmp_path: Path) -> None:
    """Records were deleted up to the middle of a batch."""

    async def go() -> None:
        broker = Broker(tmp_path)
        broker.append(10)
        broker.log.advance_log_start(5)
        broker.move()
        await broker.moved()
        assert (broker.log.log_start_offset, broker.log.log_end_offset) == (5, 10)
        await broker.stop()
        again = Broker(tmp_path)
        assert again.is_in == "b" and (again.log.log_start_offset, again.log.log_end_offset) == (5, 10)
        await again.stop()

    asyncio.run(go())


def test_every_crash_of_a_move_leaves_all_records_in_one_directory(filled: Path) -> None:
    """Kills the process before each of its file calls, from the request to the end of the move."""

    async def moves(broker: Broker, acknowledged: list[int]) -> None:
        task = asyncio.ensure_future(run(broker, acknowledged))
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            assert isinstance(error, Killed), error

    async def run(broker: Broker, acknowledged: list[int]) -> None:
        broker.move()
        [copying] = broker.moves._tasks.values()
        while not copying.done():
            broker.append()
            acknowledged.append(broker.log.log_end_offset)
            await asyncio.sleep(0.01)
        copying.result()
        broker.append()
        acknowledged.append(broker.log.log_end_offset)

    def crash_before(home: Path, call: int | None) -> tuple[int, FileCalls, bytes]:
        async def go() -> tuple[int, FileCalls, bytes]:
            broker = Broker(home)
            acknowledged: list[int] = [broker.log.log_end_offset]
            with FileCalls(home, call) as calls:
                await moves(broker, acknowledged)
            for task in broker.moves._tasks.values():
                task.cancel()
            for directory in broker.dirs.directories:
                directory.unlock()
            return acknowledged[-1], calls, b""

        return asyncio.run(go())

    def check_next_start(home: Path, acknowledged: int, before: bytes) -> str:
        async def go() -> str:
            broker = Broker(home)
            found = broker.is_in
            assert broker.log.log_end_offset >= acknowledged
            assert contents(broker.log).startswith(before)
            assert sum("orders-0" in names for names in broker.names().values()) == 1
            broker.append()
            broker.moves.start()
            if KEY not in broker.dirs.futures and found == "a":
                broker.move()
            await broker.moved()
            assert broker.log.log_end_offset > acknowledged and contents(broker.log).startswith(before)
            broker.dirs.purge_deletions(1 << 62)
            assert broker.names() == {"a": [], "b": ["orders-0"]}
            await broker.stop()
            return found

        return asyncio.run(go())

    async def original(home: Path) -> bytes:
        broker = Broker(home)
        found = contents(broker.log)
        await broker.stop()
        return found

    with directory_in_memory() as place:
        shutil.copytree(filled, place / "whole")
        before = asyncio.run(original(place / "whole"))
        _, calls, _ = crash_before(place / "whole", None)
        places = []
        for at in range(len(calls.made) + 20):
            home = place / f"at-{at}"
            shutil.copytree(filled, home)
            acknowledged, seen, _ = crash_before(home, at)
            places.append(check_next_start(home, acknowledged, before))
            shutil.rmtree(home)
            if len(seen.made) < at:
                break
        else:
            pytest.fail(f"the move makes more than {len(calls.made) + 20} file calls")
    assert places[0] == "a" and places[-1] == "b"
    assert any("rename" in call for call in calls.made)


def test_an_interrupted_move_continues_after_a_restart_where_it_stopped(home: Path) -> None:
    async def go() -> None:
        broker = Broker(home, settings=SLOW)
        broker.move()
        await wait_on_loop(lambda: broker.dirs.futures[KEY].log.log_end_offset > 0, "the first records to be copied")
        copied = broker.dirs.futures[KEY].log.log_end_offset
        assert copied < broker.log.log_end_offset
        await broker.stop()
        broker = Broker(home)
        assert broker.is_in == "a" and broker.dirs.futures[KEY].log.log_end_offset >= copied
        broker.moves.start()
        await broker.moved()
        await broker.stop()

    asyncio.run(go())


# One batch in a second: the move is still under way in every step of a test.
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}


def test_a_move_back_cancels_the_move(home: Path) -> None:
    async def go() -> None:
        broker = Broker(home, settings=SLOW)
        before = contents(broker.log)
        broker.move()
        await wait_on_loop(lambda: broker.dirs.futures[KEY].log.log_end_offset > 0, "the first records to be copied")
        broker.move()
        assert KEY in broker.dirs.futures, "a repeated request changes nothing"
        broker.move("a")
        assert KEY not in broker.dirs.futures
        await wait_on_loop(lambda: not broker.moves._tasks, "the move to end")
        broker.dirs.purge_deletions(1 << 62)
        assert broker.names() == {"a": ["orders-0"], "b": []}
        broker.append()
        assert contents(broker.log).startswith(before)
        await broker.stop()

    asyncio.run(go())


def test_a_deleted_topic_deletes_its_copy(home: Path) -> None:
    async def go() -> None:
        broker = Broker(home, settings=SLOW)
        broker.move()
        broker.view.publish(apply(broker.image, [TopicDeleted("orders", TOPIC_ID)], 2))
        assert broker.dirs.log("orders", 0) is None and KEY not in broker.dirs.futures
        await wait_on_loop(lambda: not broker.moves._tasks, "the move to end")
        broker.dirs.purge_deletions(1 << 62)
        assert broker.names() == {"a": [], "b": []}
        assert not broker.dirs.offline, "files that are gone are no failed disk"
        await broker.stop()

    asyncio.run(go())


def test_the_copy_follows_truncation_and_retention_of_the_log(home: Path) -> None:
    """A follower truncates records that its leader does not have and gets others for the same offsets."""

    async def go() -> None:
        broker = Broker(home)
        log, end = broker.log, broker.log.log_end_offset
        future = broker.dirs.begin_move(KEY, broker.dirs.directories[1], now_ms=NOW_MS).log
        piece = log.read(0, 1 << 20)
        while piece is not None:
            future.append_as_follower(memoryview(os.pread(piece.file.fileno(), piece.length, piece.position)))
            piece = log.read(future.log_end_offset, 1 << 20)
        assert future.log_end_offset == end
        log.truncate_to(end - 40)
        log.leader_epochs.assign(20, log.log_end_offset)
        for _ in range(60):
            append(log, a_batch(1, value=b"another"), epoch=20)
        log.advance_high_watermark(log.log_end_offset)
        log.advance_log_start(100)
        broker.moves.start()
        await broker.moved()
        assert broker.log is future and contents(future) == contents_from(log_of=broker, start=100)
        assert (future.log_start_offset, future.log_end_offset) == (100, log.log_end_offset)
        assert b"another" in contents(future)
        after = contents(future)
        await broker.stop(clean=False)
        again = Broker(home)
        assert again.log.log_start_offset == 100 and contents(again.log) == after
        await again.stop()

    def contents_from(log_of: Broker, start: int) -> bytes:
        [retired] = (log_of.home / "a").glob("orders-0.*-delete")
        old = open_at_path(retired)
        return b"".join(bytes(batch.data) for batch in read_batches(old, start))

    asyncio.run(go())


def test_an_empty_copy_follows_a_log_that_starts_over_at_a_lower_offset(tmp_path: Path) -> None:
    """Its new leader was elected uncleanly and has fewer records."""
    current, future = open_at(tmp_path / "a"), open_at(tmp_path / "b")
    for log in (current, future):
        log.truncate_fully_and_start_at(11)
    current.truncate_fully_and_start_at(4)
    append(current, a_batch(2), epoch=1)
    copy = LogCopy(future, lambda: NOW_MS)
    for _ in range(2):
        step = copy.next_step(current)
        assert step is not None
        step[1]()
    assert copy.next_step(current) is None
    assert (future.log_start_offset, contents(future)) == (4, contents(current))


def open_at_path(directory: Path) -> Log:
    return open_log(directory, KEY, CONFIG, clean=False, now_ms=NOW_MS)


def test_a_full_target_disk_makes_the_move_wait(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.replication.replica_moves._FAULT_PAUSE_S", 0.01)
    pwrite, is_full = os.pwrite, [True]

    def limited(fd: int, data: bytes, position: int) -> int:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        if is_full[0] and "-future" in path and path.endswith(".log") and position + len(data) > 5_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", limited)

    async def go() -> None:
        broker = Broker(home)
        with caplog.at_level(logging.WARNING):
            broker.move()
            await wait_on_loop(lambda: "no space left" in caplog.text, "the full disk to be reported")
        broker.append()
        assert broker.is_in == "a" and not broker.dirs.offline
        is_full[0] = False
        await broker.moved()
        await broker.stop()

    asyncio.run(go())


def test_a_failed_read_of_the_current_log_does_not_end_the_move(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.replication.replica_moves._FAULT_PAUSE_S", 0.01)
    copy = LogCopy._append
    failed: list[Slice] = []

    def failing_once(self: LogCopy, pieces: list[Slice]) -> None:
        if not failed:
            failed.extend(pieces)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        copy(self, pieces)

    monkeypatch.setattr(LogCopy, "_append", failing_once)

    async def go() -> None:
        broker = Broker(home)
        with caplog.at_level(logging.WARNING):
            broker.move()
            await broker.moved()
        assert failed and "waits" in caplog.text
        await broker.stop()

    asyncio.run(go())


def test_a_log_start_that_moves_while_the_target_disk_is_full_does_not_end_the_move(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention moves the log start. The copy follows, and its disk has no space for the small file with the epochs."""
    refused: list[Path] = []

    def limited(path: Path, *rest: Any, **options: Any) -> None:
        if path.is_relative_to(home / "b") and not refused:
            refused.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write_epochs(path, *rest, **options)

    async def go() -> None:
        broker = Broker(home)
        future = broker.dirs.begin_move(KEY, broker.dirs.directories[1], now_ms=NOW_MS).log
        piece = broker.log.read(0, 1 << 20)
        assert piece is not None
        future.append_as_follower(memoryview(os.pread(piece.file.fileno(), piece.length, piece.position)))
        broker.log.advance_high_watermark(broker.log.log_end_offset)
        broker.partition.delete_records_before(future.log_end_offset - 1)
        monkeypatch.setattr("headrace.storage.leader_epochs.write_epochs", limited)
        broker.moves.start()
        await broker.moved()
        assert refused and broker.log.log_start_offset == future.log_start_offset > 0
        await broker.stop()

    asyncio.run(go())


def test_a_log_that_started_over_on_a_full_disk_moves_away_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no data file, but its directory has the topic id."""

    def no_space(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def go() -> None:
        broker = Broker(tmp_path)
        broker.append(10)
        source = broker.is_in
        target = "b" if source == "a" else "a"
        with monkeypatch.context() as patched:
            patched.setattr(Segment, "create", no_space)
            broker.log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
        broker.move(target)
        await broker.moved(target)
        broker.dirs.purge_deletions(1 << 62)
        assert broker.names() == {source: [], target: ["orders-0"]}
        broker.append(3)
        broker.move(source)
        await broker.moved(source)
        assert not broker.dirs.offline
        assert (broker.log.log_start_offset, broker.log.log_end_offset) == (100, 103)
        await broker.stop()

    asyncio.run(go())


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_disk_that_fails_during_a_move_ends_it_and_a_repair_continues_it(home: Path, lost: str) -> None:
    async def go() -> None:
        broker = Broker(home, settings=SLOW)
        before = contents(broker.log)
        broker.move()
        await wait_on_loop(lambda: broker.dirs.futures[KEY].log.log_end_offset > 0, "the first records to be copied")
        broker.dirs.take_offline(next(d for d in broker.dirs.directories if d.path.name == lost), "Input/output error")
        if lost == "b":
            broker.append()
            assert contents(broker.log).startswith(before)
        with pytest.raises(StorageFault):
            broker.move()
        await broker.stop(clean=False)
        broker = Broker(home)
        assert broker.is_in == "a" and contents(broker.log).startswith(before)
        broker.moves.start()
        await broker.moved()
        await broker.stop()

    asyncio.run(go())


def test_a_copy_whose_source_grew_meanwhile_becomes_a_future_log_again(home: Path, tmp_path: Path) -> None:
    """The process was killed between the two renames, and the target disk was missing at the next start."""

    async def crash_between_the_renames() -> None:
        broker = Broker(home)
        rename = os.rename

        def stop_at_source(source: Path, target: Path) -> None:
            if str(target).endswith("-delete"):
                raise Killed(str(target))
            rename(source, target)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "rename", stop_at_source)
            broker.move()
            [task] = broker.moves._tasks.values()
            await asyncio.wait([task])
        assert broker.names() == {"a": ["orders-0"], "b": ["orders-0"]}
        for directory in broker.dirs.directories:
            directory.unlock()

    async def append_to_the_old_log() -> None:
        (home / "b").rename(tmp_path / "away")
        broker = Broker(home)
        broker.append(5)
        await broker.stop()
        shutil.rmtree(home / "b")
        (tmp_path / "away").rename(home / "b")

    async def go_on() -> None:
        broker = Broker(home)
        before = contents(broker.log)
        assert broker.is_in == "a" and KEY in broker.dirs.futures
        broker.moves.start()
        await broker.moved()
        assert contents(broker.log) == before
        await broker.stop()

    asyncio.run(crash_between_the_renames())
    asyncio.run(append_to_the_old_log())
    asyncio.run(go_on())


def refusal(call: Callable[[], None]) -> ErrorCode:
    with pytest.raises(Fault) as raised:
        call()
    return raised.value.code


def test_refused_moves(home: Path) -> None:
    async def go() -> None:
        broker = Broker(home)
        move, b = broker.moves.begin, str(home / "b")
        assert refusal(lambda: move("orders", 0, "/elsewhere")) is ErrorCode.log_dir_not_found
        assert refusal(lambda: move("orders", 0, b + "/")) is ErrorCode.log_dir_not_found
        assert refusal(lambda: move("missing", 0, b)) is ErrorCode.unknown_topic_or_partition
        assert refusal(lambda: move("orders", 1, b)) is ErrorCode.replica_not_available
        assert refusal(lambda: move("o" * 240, 0, b)) is ErrorCode.invalid_topic_exception
        broker.cordoned = [b]
        assert refusal(lambda: move("orders", 0, b)) is ErrorCode.invalid_replica_assignment
        broker.cordoned = []
        move("orders", 0, str(home / "a"))
        assert KEY not in broker.dirs.futures
        assert broker.dirs.create("orders", 1, TOPIC_ID).directory.parent.name == "b", "the directory was remembered"
        broker.dirs.take_offline(broker.dirs.directories[1], "Input/output error")
        assert refusal(lambda: move("orders", 0, b)) is ErrorCode.kafka_storage_error
        await broker.stop(clean=False)

    asyncio.run(go())


def test_copies_that_cannot_continue_stay_on_the_disk_and_harm_no_other_log(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable = home / "b" / f"orders-0.{uuid.UUID(int=1).hex}-future"
    foreign = home / "b" / f"missing-0.{uuid.UUID(int=2).hex}-future"
    (unreadable / "00000000000000000000.log").mkdir(parents=True)
    (unreadable / "00000000000000000000.log" / "file").touch()
    foreign.mkdir()

    async def go() -> None:
        broker = Broker(home)
        assert not broker.dirs.offline and KEY not in broker.dirs.futures
        broker.append()
        broker.move()
        await broker.moved()
        await broker.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    assert f"{unreadable} is left alone" in caplog.text and f"{foreign} is left alone" in caplog.text
    assert (unreadable / "00000000000000000000.log" / "file").exists() and list(foreign.iterdir()) == []
