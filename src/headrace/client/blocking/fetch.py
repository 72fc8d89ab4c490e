"""Reads one partition from an offset on, one answer ahead.

    for record in fetched_records(client, ("clicks", 0), start, end):         # one by one
    for chunk in FetchStream(client, ("clicks", 0), start, end, settings):    # chunk.records: whole batches, as bytes

As soon as an answer is there, the offset after its last whole batch is known from the batch headers alone, and the next
request is sent before the caller decodes this one. So broker and worker work at the same time with one connection and
no thread. Fetch v11 is written and read by hand: an answer is megabytes, and only its first bytes need looking at.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.client.blocking.client import (
    READ_UNCOMMITTED,
    BlockingClient,
    TopicPartitionPair,
    is_retriable,
)
from headrace.client.blocking.connection import BlockingConnection
from headrace.client.errors import Unreachable
from headrace.kernel.errors import CorruptBatch, ErrorCode, OffsetOutOfRange, Refused
from headrace.records.batch import BatchView
from headrace.records.builder import Record
from headrace.records.reader import iter_records
from headrace.records.unreadable import UnreadableBatch
from headrace.records.visible import visible_batches, whole_batches

_FETCH_KEY: Final = 1
_FETCH_VERSION: Final = 11
_LANE: Final = "fetch"
_ONE_PARTITION: Final = struct.Struct(">hqqqi")


@dataclass(frozen=True)
class FetchedChunk:
    records: memoryview  # whole batches; the first may begin below `offset`
    offset: int  # the offset that was asked for
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]  # (producer id, first offset) of aborted transactions in the range

    def batches(self, start: int, end: int) -> Iterator[BatchView]:
        """The visible batches with a record from `start` to before `end`."""
        return visible_batches(self.records, self.aborted, start, end)


@dataclass(frozen=True)
class FetchSettings:
    max_bytes: int = 8 << 20
    max_wait_ms: int = 500
    isolation: int = READ_UNCOMMITTED
    # Without a new byte for this long, the fetch fails.
    stall_timeout_s: float = 120.0
    # The next chunk overwrites the bytes of this one: for callers that copy what they keep. Saves the allocation of
    # memory for every answer.
    reuse_buffer: bool = False


class FetchStalled(Refused):
    """The broker returns no more records although the range is not read to its end."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.request_timed_out, message)


class FetchStream:
    """Iterates over chunks that cover [start, end)."""

    def __init__(
        self, client: BlockingClient, partition: TopicPartitionPair, start: int, end: int, settings: FetchSettings
    ) -> None:
        self.client, self.partition, self.settings = client, partition, settings
        self.offset, self.end = start, end
        self._max_bytes = settings.max_bytes
        self._reconnected = False

    def __iter__(self) -> Iterator[FetchedChunk]:
        pending: BlockingConnection | None = None
        last_progress = time.monotonic()
        try:
            while self.offset < self.end:
                connection = pending or self._ask(self.offset)
                pending = None
                chunk = self._read(connection, self.offset)
                if chunk is None:
                    last_progress = self._waited(last_progress)
                    continue
                last_progress = time.monotonic()
                self.offset = chunk.next_offset
                if self.offset < self.end:
                    pending = self._ask(self.offset)
                yield chunk
        finally:
            # An outstanding answer would be taken for the next request's.
            if pending is not None:
                pending.close()

    def _waited(self, last_progress: float) -> float:
        if time.monotonic() - last_progress > self.settings.stall_timeout_s:
            topic, index = self.partition
            raise FetchStalled(
                f"{topic}-{index}: nothing readable at offset {self.offset} within "
                f"{self.settings.stall_timeout_s:g} s, although the range ends at {self.end}"
            )
        return last_progress

    def _ask(self, offset: int) -> BlockingConnection:
        def attempt() -> BlockingConnection:
            connection = self.client.leader(self.partition, _LANE)
            connection.send(self._request(connection, offset))
            return connection

        return self.client.retrying(f"fetching {self.partition[0]}-{self.partition[1]}", attempt)

    def _request(self, connection: BlockingConnection, offset: int) -> bytes:
        topic, index = self.partition
        name = topic.encode()
        wait, size = self.settings.max_wait_ms, self._max_bytes
        body = struct.pack(">iiiibii", -1, wait, 1, max(size, 1 << 20), self.settings.isolation, 0, -1)
        body += struct.pack(f">ih{len(name)}si", 1, len(name), name, 1)
        body += struct.pack(">iiqqi", index, -1, offset, -1, size)
        body += struct.pack(">ih", 0, 0)
        frame = connection.next_header(_FETCH_KEY, _FETCH_VERSION) + body
        return len(frame).to_bytes(4, "big") + frame

    def _read(self, connection: BlockingConnection, offset: int) -> FetchedChunk | None:
        """The chunk, or None when there was no record yet or leadership moved (then it is fetched again)."""
        wait_s = self.settings.max_wait_ms / 1000 + self.client.timeout_s
        try:
            frame = connection.receive(reuse_buffer=self.settings.reuse_buffer, timeout_s=wait_s)
        except Unreachable as fault:
            if self._reconnected:
                raise
            # Brokers close connections that were idle for long. The second attempt uses a new one.
            self._reconnected = True
            self.client.forget(fault)
            return None
        self._reconnected = False
        at = 4 + 4
        (top_error,) = struct.unpack_from(">h", frame, at)
        if top_error:
            raise Refused(ErrorCode(top_error), f"fetch from {connection.address}: {ErrorCode(top_error).name}")
        at += 2 + 4
        (topics, name_length) = struct.unpack_from(">ih", frame, at)
        if topics != 1:
            return None
        at += 4 + 2 + name_length + 4 + 4
        error, high_watermark, stable, log_start, aborted_count = _ONE_PARTITION.unpack_from(frame, at)
        at += _ONE_PARTITION.size
        aborted: tuple[tuple[int, int], ...] = ()
        if aborted_count > 0:
            flat = struct.unpack_from(f">{2 * aborted_count}q", frame, at)
            aborted = tuple(zip(flat[::2], flat[1::2], strict=True))
            at += 16 * aborted_count
        at += 4
        (size,) = struct.unpack_from(">i", frame, at)
        records = frame[at + 4 : at + 4 + max(size, 0)]
        if error:
            self._fail(ErrorCode(error), offset, log_start, high_watermark)
            return None
        used, next_offset = whole_batches(records)
        if used == 0:
            if len(records) > 0:
                # The first batch is larger than what was asked for; brokers since 0.10.1 send it whole, proxies may
                # not.
                self._max_bytes *= 2
            return None
        return FetchedChunk(records[:used], offset, next_offset, high_watermark, stable, log_start, aborted)

    def _fail(self, code: ErrorCode, offset: int, log_start: int, high_watermark: int) -> None:
        """Raises, unless a retry (after new metadata) can help."""
        topic, index = self.partition
        if code is ErrorCode.offset_out_of_range:
            raise OffsetOutOfRange(f"{topic}-{index}: offset {offset} is outside what the broker holds")
        fault = Refused(code, f"fetching {topic}-{index} at offset {offset}: {code.name}")
        if not is_retriable(fault):
            raise fault
        self.client.forget(fault)
        time.sleep(0.05)


def fetched_records(
    client: BlockingClient, partition: TopicPartitionPair, start: int, end: int, settings: FetchSettings
) -> Iterator[Record]:
    """Every visible record from `start` to before `end`. Raises CorruptBatch, FetchStalled and the faults of a
    fetch."""
    for chunk in FetchStream(client, partition, start, end, settings):
        try:
            for batch in chunk.batches(start, end):
                yield from (record for record in iter_records(batch) if start <= record.offset < end)
        except UnreadableBatch as fault:
            raise fault.of(*partition) from fault
        except CorruptBatch as fault:
            raise CorruptBatch(f"{partition[0]}-{partition[1]}: {fault.message}") from fault
