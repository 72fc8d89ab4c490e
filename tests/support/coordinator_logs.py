"""A coordinator's log in memory. The test decides about commits and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from headrace.kernel.errors import ErrorCode, Fault
from headrace.records.batch import batches
from headrace.records.builder import Record
from headrace.records.reader import read_records


class MemoryLog:
    """With `commits_at_once=False` nothing is committed until `commit()`."""

    def __init__(self, *, commits_at_once: bool = True) -> None:
        self.commits_at_once = commits_at_once
        self.stored: list[bytes] = []
        self.end_offset = 0
        self.committed_offset = 0
        self.max_batch_bytes = 1_000_000
        self.is_led = True
        self.fails_with: Fault | None = None
        self.refuses_with: Fault | None = None
        self._waiters: list[tuple[int, asyncio.Future[ErrorCode]]] = []

    @property
    def is_committed(self) -> bool:
        return self.committed_offset >= self.end_offset

    def refusal(self) -> Fault | None:
        return self.refuses_with

    def append(self, batch: bytearray, now_ms: int, transaction_version: int = 0) -> int:
        if self.fails_with is not None:
            raise self.fails_with
        batch[0:8] = self.end_offset.to_bytes(8, "big")
        self.stored.append(bytes(batch))
        self.end_offset += int.from_bytes(batch[23:27], "big") + 1
        if self.commits_at_once:
            self.committed_offset = self.end_offset
        return self.end_offset

    def commit(self) -> None:
        self.committed_offset = self.end_offset
        self._tell(ErrorCode.none)

    def lose_leadership(self) -> None:
        self._tell(ErrorCode.not_leader_or_follower)

    def _tell(self, error: ErrorCode) -> None:
        waiters, self._waiters = self._waiters, []
        for offset, future in waiters:
            if error is ErrorCode.none and offset > self.committed_offset:
                self._waiters.append((offset, future))
            elif not future.done():
                future.set_result(error)

    async def wait_committed(self, offset: int, timeout_ms: int) -> ErrorCode:
        if offset <= self.committed_offset:
            return ErrorCode.none
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, future))
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            return ErrorCode.request_timed_out

    def read_from_start(self) -> Iterator[bytes]:
        yield from list(self.stored)

    def records(self) -> list[Record]:
        return [record for data in self.stored for batch in batches(memoryview(data)) for record in read_records(batch)]
