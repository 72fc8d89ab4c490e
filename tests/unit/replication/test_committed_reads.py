"""What a `read_committed` fetch says about aborted transactions: those that matter for its records, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.kernel.isolation import READ_COMMITTED
from headrace.records.batch import BatchView, batches
from headrace.replication.partition import Partition
from headrace.replication.replica import PartitionRead
from headrace.storage.log import Log
from headrace.storage.segment.txn_index import AbortedTransaction
from tests.support.compacted_logs import COMPACT, HOUR_MS, clean, end, put
from tests.support.logs import NOW_MS, directory_in_memory, open_at
from tests.unit.replication.test_partition import ALONE, Broker

LONG, SHORT = 1, range(10, 30)  # producers


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


def led(log: Log) -> Partition:
    partition = Partition("orders", 0, None, log, Broker())
    partition.update(ALONE)
    return partition


def read(partition: Partition, offset: int, max_bytes: int) -> tuple[PartitionRead, list[BatchView]]:
    found = partition.read(offset, max_bytes, isolation=READ_COMMITTED)
    assert found.slice is not None
    data = os.pread(found.slice.file.fileno(), found.slice.length, found.slice.position)
    return found, batches(memoryview(data))


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
