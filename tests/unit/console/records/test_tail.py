"""The live view of a topic: it reaches the end of every log and then waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.console.records.decoding import Decoding
from headrace.console.records.tail import Tail
from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.control import build_end_txn_marker
from tests.support.clock import wait_on_loop

MARKER = build_end_txn_marker(True, 0, 7, 0, 1)


def transactional(value: bytes) -> bytes:
    return build_batch([Record(None, value)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


class OneLog:
    """Answers a fetch with all batches from its offset on, the last one cut short. At the end of the log, it waits."""

    def __init__(self, *batches: bytes) -> None:
        placed, self.end = [], 0
        for batch in batches:
            placed.append((self.end, self.end.to_bytes(8, "big") + batch[8:]))
            self.end += BatchView(memoryview(batch)).record_count
        self.batches = placed
        self.fetched_at: list[int] = []
        self.is_read = asyncio.Event()

    async def request(self, api: object, body: dict[str, Any], **_: object) -> object:
        offset = body["topics"][0]["partitions"][0]["fetch_offset"]
        self.fetched_at.append(offset)
        if offset >= self.end:
            self.is_read.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        found = [batch for at, batch in self.batches if at >= offset]
        records = found[0] + b"".join(found[1:])[:70]
        part = SimpleNamespace(partition_index=0, error_code=0, records=records)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])

    async def close(self) -> None:
        pass


class Offsets:
    topic = "orders"

    def record(self, partition: int, record: Record) -> int:
        return record.offset


def tail_of(log: OneLog) -> Tail:
    return Tail(cast("ClusterClient", log), cast("Decoding", Offsets()), {0: 1}, {0: 0})


def test_a_log_that_ends_with_a_marker_is_read_once_and_not_again() -> None:
    async def play() -> None:
        log = OneLog(transactional(b"a"), MARKER, MARKER, build_batch([Record(None, b"b")]), MARKER)
        shown: list[object] = []

        async def watch() -> None:
            async for arrived in tail_of(log).arriving():
                shown.extend(arrived.records if arrived else ())

        watching = asyncio.create_task(watch())
        await asyncio.wait_for(log.is_read.wait(), 10)
        await wait_on_loop(lambda: len(shown) == 2, "both records")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert sorted(cast("list[int]", shown)) == [0, 3]
        assert log.fetched_at == sorted(set(log.fetched_at)), "no batch was fetched twice"

    asyncio.run(play())


def test_a_batch_that_cannot_be_read_ends_the_view_with_the_command_that_helps() -> None:
    async def play() -> None:
        batch = BatchView(memoryview(bytearray(build_batch([Record(None, b"b")]))))
        batch.records_section[:] = b"\xff" * len(batch.records_section)
        batch.seal()
        with pytest.raises(CorruptBatch, match="headrace log skip LOG_DIR/orders-0 --offset 0"):
            async for _ in tail_of(OneLog(bytes(batch.data))).arriving():
                pass

    asyncio.run(play())
