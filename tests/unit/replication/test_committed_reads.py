"""`read_committed` readers of one replica: which aborted transactions a fetch names, and what wakes a waiting one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cluster.core.image import PartitionInfo
from headrace.kernel.isolation import READ_COMMITTED
from headrace.records.batch import BatchView, batches
from headrace.records.control import build_end_txn_marker
from headrace.replication.partition import Partition
from headrace.replication.replica import Follower, PartitionRead
from headrace.replication.waiters import FetchWaiter
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.segment.txn_index import AbortedTransaction
from tests.support.compacted_logs import COMPACT, HOUR_MS, clean, end, put
from tests.support.logs import NOW_MS, a_batch, directory_in_memory, open_at, read_batches
from tests.unit.replication.test_partition import ALONE, FOLLOWED, LED, Broker

LONG, SHORT = 1, range(10, 30)  # producers
DATA = bytes(a_batch(producer=(LONG, 0, 0), transactional=True))
MARKER = build_end_txn_marker(True, 0, LONG, 0, NOW_MS)


@pytest.fixture
def directory() -> Iterator[Path]:
    with directory_in_memory() as found:
        yield found / "orders-0"


def aborts(directory: Path, *, segment_bytes: int) -> Log:
    """Many short transactions, half of them aborted, inside an aborted one whose marker is the last batch."""
    log = open_at(directory, replace(COMPACT, segment_bytes=segment_bytes))
    put(log, ("long", "0"), producer=(LONG, 0, 0))
    for number, producer in enumerate(SHORT):
        put(log, (f"key-{number}", "value"), producer=(producer, 0, 0))
        put(log, ("plain", str(number)))
        end(log, producer, commit=number % 2 == 0)
    put(log, ("long", "1"), producer=(LONG, 0, 1))
    end(log, LONG, commit=False)
    return log


def led(log: Log, info: PartitionInfo = ALONE) -> Partition:
    partition = Partition("orders", 0, None, log, Broker())
    partition.update(info)
    return partition


def waiting(partition: Partition) -> list[str]:
    """Who was woken so far, of two readers that wait for many bytes."""
    woken: list[str] = []
    for name in ("committed", "uncommitted"):
        FetchWaiter(1 << 20, lambda name=name: woken.append(name), reads_committed=name == "committed").watch(
            partition.readers
        )
    return woken


def append(partition: Partition, data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    partition.append(bytearray(data), origin=origin, now_ms=NOW_MS)


def read(partition: Partition, offset: int, max_bytes: int) -> tuple[PartitionRead, list[BatchView]]:
    found = partition.read(offset, max_bytes, isolation=READ_COMMITTED)
    assert found.slice is not None
    data = os.pread(found.slice.file.fileno(), found.slice.length, found.slice.position)
    return found, list(batches(memoryview(data)))


def skipped(read: Iterable[BatchView], aborted: Iterable[AbortedTransaction]) -> list[int]:
    """The data batches that a consumer skips."""
    return [
        batch.base_offset
        for batch in read
        if not batch.is_control
        and any(
            each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
            for each in aborted
        )
    ]


def test_a_small_fetch_names_few_aborted_transactions(directory: Path) -> None:
    partition = led(aborts(directory, segment_bytes=1 << 20))
    found, batches_read = read(partition, 5, 1)
    assert [batch.base_offset for batch in batches_read] == [5]
    assert {each.producer_id for each in found.aborted or ()} == {LONG, 11}, "the transactions around the offset"
    found, _ = read(partition, 5, 1 << 20)
    assert len(found.aborted or ()) == len(SHORT) // 2 + 1


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_every_fetch_names_all_that_its_records_need(directory: Path, segment_bytes: int, rounds: int) -> None:
    log = aborts(directory, segment_bytes=segment_bytes)
    for hours in range(rounds):
        log.roll()
        put(log, ("plain", "newer"))
        clean(log, now_ms=NOW_MS + 2 * hours * HOUR_MS)
    whole = log.aborted_transactions(0, log.log_end_offset)
    partition = led(log)
    for offset in range(log.log_end_offset):
        for max_bytes in (1, 150, 300, 700, 1 << 20):
            found, batches_read = read(partition, offset, max_bytes)
            aborted = found.aborted
            assert aborted is not None
            asked = [batch for batch in batches_read if batch.last_offset >= offset]
            assert skipped(asked, aborted) == skipped(asked, whole), f"from {offset}, {max_bytes} bytes"


def test_the_end_of_a_transaction_wakes_committed_readers(directory: Path) -> None:
    partition = led(open_at(directory))
    woken = waiting(partition)
    append(partition, bytes(a_batch()))
    append(partition, DATA)
    assert woken == []
    append(partition, MARKER, AppendOrigin.COORDINATOR)
    assert woken == ["committed"]


def test_committed_readers_of_a_leader_are_woken_when_the_marker_is_replicated(directory: Path) -> None:
    partition = led(open_at(directory), LED)
    append(partition, DATA)
    _follower_has(partition, 1)
    woken = waiting(partition)
    append(partition, MARKER, AppendOrigin.COORDINATOR)
    assert woken == []
    _follower_has(partition, 2)
    assert woken == ["committed"]


def test_committed_readers_of_a_follower_are_woken_when_the_marker_is_committed(directory: Path) -> None:
    source = led(open_at(directory))
    append(source, DATA)
    append(source, MARKER, AppendOrigin.COORDINATOR)
    data, marker = (bytes(batch.data) for batch in read_batches(source.log))
    replica = led(open_at(directory.with_name("orders-1")), FOLLOWED)
    replica.append_as_follower(memoryview(data), 1, 0)
    woken = waiting(replica)
    replica.append_as_follower(memoryview(marker), 2, 0)
    assert woken == ["committed"]


def _follower_has(partition: Partition, end: int) -> None:
    partition.read(end, 1000, follower=Follower(2, 102), current_leader_epoch=LED.leader_epoch, last_fetched_epoch=5)
