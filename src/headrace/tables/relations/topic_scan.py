"""Fetches and decodes offset ranges of a topic in threads, in Arrow batches.

Each thread has its own client, because a `BlockingClient` serves one thread. While one thread waits for a broker or
runs numpy and Arrow code, which release Python's lock, the other decodes. A short queue keeps the threads from reading
far ahead of a query that stops early (LIMIT).
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from headrace.client.blocking.client import EARLIEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.kernel.errors import OffsetOutOfRange
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import DataLossError
from headrace.pipelines.options import Cluster
from headrace.pipelines.source.offsets import OffsetRange, split_ranges
from headrace.serialization.arrow_records import Decoder

_FETCH: Final = FetchSettings(max_bytes=4 << 20, isolation=READ_COMMITTED, stall_timeout_s=30.0, reuse_buffer=True)
_QUEUED_BATCHES: Final = 4
_MOST_THREADS: Final = 4


def client_of(cluster: Cluster) -> BlockingClient:
    return BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)


def read_range(
    client: BlockingClient, piece: OffsetRange, columns: Sequence[str] | None = None, *, every_record: bool = False
) -> Iterator[pa.RecordBatch]:
    """The committed records of the range. Retention may remove records while they are read: the scan goes on with the
    first record that is left, or fails if the caller needs every record."""
    decoder = Decoder(piece.topic, piece.partition, columns=None if columns is None else frozenset(columns))
    pair, start = (piece.topic, piece.partition), piece.start
    while start < piece.end:
        try:
            for chunk in FetchStream(client, pair, start, piece.end, _FETCH):
                yield from decoder.decode(chunk.records, start, piece.end, chunk.aborted)
                start = chunk.next_offset
            return
        except OffsetOutOfRange as fault:
            first = client.list_offsets({pair: EARLIEST})[pair]
            if first <= start:
                raise
            if every_record:
                gone = counted(min(first, piece.end) - start, "record")
                raise DataLossError(
                    f"{piece.topic}-{piece.partition}: retention removed {gone} from offset {start} on before they "
                    "were read"
                ) from fault
            start = first


class TopicScan:
    """Iterates over the batches of the ranges. `close` stops the threads."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Sequence[OffsetRange],
        columns: Sequence[str] | None = None,
        *,
        every_record: bool = False,
    ) -> None:
        self._cluster, self._columns, self._every_record = cluster, columns, every_record
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        self._pieces: queue.SimpleQueue[OffsetRange] = queue.SimpleQueue()
        pieces = split_ranges(ranges, min_partitions=threads)
        for piece in pieces:
            self._pieces.put(piece)
        self._ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_QUEUED_BATCHES)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name="headrace-scan", daemon=True)
            for _ in range(min(threads, len(pieces)))
        ]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for thread in self._threads:
            thread.start()
        working = len(self._threads)
        try:
            while working:
                got = self._ready.get()
                if got is None:
                    working -= 1
                elif isinstance(got, BaseException):
                    raise got
                else:
                    yield got
        finally:
            self.close()

    def close(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive():
                # A thread may wait for space in the queue.
                with contextlib.suppress(queue.Empty):
                    self._ready.get_nowait()
                thread.join(0.01)

    def _work(self) -> None:
        try:
            with client_of(self._cluster) as client:
                while not self._stopped.is_set():
                    try:
                        piece = self._pieces.get_nowait()
                    except queue.Empty:
                        break
                    for batch in read_range(client, piece, self._columns, every_record=self._every_record):
                        if self._stopped.is_set():
                            return
                        self._ready.put(batch)
        except BaseException as error:  # the reader raises it in its own thread
            self._ready.put(error)
        finally:
            self._ready.put(None)
