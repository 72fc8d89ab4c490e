"""A topic as a stream: server-sent events for browsers, NDJSON for curl.

The reader has a client of its own, because a fetch waits at the broker. It fetches the next records only after the
connection took the previous ones. So a slow reader holds at most one fetch answer in memory. Conditions are checked in
a thread, for a short time each: a thread cannot be stopped, so a reader that went away is noticed between two of them.

A server-sent event carries the positions of all partitions as its id (`0:17,1:4`). A browser that reconnects sends the
last id, and the stream goes on there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.places import Kind, Place
from headrace.client.positions import offset_at
from headrace.client.record_fetch import FetchedRecords, fetch_records, has_moved
from headrace.http.call import dumped
from headrace.http.records.decoding import shown_record
from headrace.http.records.filters import Condition
from headrace.http.records.schemas import Schemas
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject
from headrace.records.builder import Record
from headrace.web.errors import Problem, bad_request, problem_of

_WAIT_MS: Final = 1000
_FETCH_BYTES: Final = 1 << 20
_ALIVE_S: Final = 15.0
_PAUSE_S: Final = 0.1
_RETRY_S: Final = 30.0
_SELECT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Selected:
    documents: list[JsonObject]
    is_all: bool
    problem: Problem | None = None
    """What the condition says to the record after these."""


@dataclass(frozen=True, slots=True)
class Wanted:
    topic: str
    partitions: tuple[int, ...]
    start: Place
    how: str
    conditions: Sequence[Condition]
    limit: int | None
    is_following: bool
    last_event_id: str | None
    isolation_level: int


class TopicStream:
    def __init__(self, client: ClusterClient, schemas: Schemas | None, wanted: Wanted) -> None:
        self._client = client
        self._schemas = schemas
        self._wanted = wanted
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._failing_since: float | None = None

    async def start(self) -> None:
        """Finds the first offsets. Raises Fault or Problem before the answer begins."""
        wanted = self._wanted
        partitions = [TopicPartition(wanted.topic, number) for number in wanted.partitions]
        level = wanted.isolation_level
        self._positions = await offset_at(self._client, partitions, wanted.start, isolation_level=level)
        for number, offset in _resumed(wanted.last_event_id).items():
            partition = TopicPartition(wanted.topic, number)
            if partition in self._positions:
                self._positions[partition] = offset
        if not wanted.is_following:
            self._ends = await offset_at(self._client, partitions, Place(Kind.END), isolation_level=level)
        probe = await self._fetched(max_wait_ms=0)  # the right to read shows itself at the first fetch
        for found in probe.values():
            is_mendable = isinstance(found, Fault) and (has_moved(found) or found.code is ErrorCode.offset_out_of_range)
            if isinstance(found, Fault) and not is_mendable:
                raise found

    def event_id(self) -> str:
        return ",".join(f"{one.partition}:{offset}" for one, offset in sorted(self._positions.items()))

    async def documents(self) -> AsyncIterator[JsonObject | None]:
        """Records as documents, in the order of each partition. None: nothing new, the connection is alive."""
        left = self._wanted.limit
        alive_at = asyncio.get_running_loop().time() + _ALIVE_S
        while left is None or left > 0:
            open_ = self._open()
            if not open_:
                return
            for partition, found in (await self._fetched(max_wait_ms=_WAIT_MS)).items():
                if isinstance(found, Fault):
                    await self._failed(partition, found)
                    continue
                self._failing_since = None
                records, is_all = iter(found.records), False
                while not is_all:
                    selected = await asyncio.to_thread(self._selected, partition, records)
                    is_all = selected.is_all
                    for document in selected.documents:
                        self._positions[partition] = document["offset"] + 1
                        alive_at = asyncio.get_running_loop().time() + _ALIVE_S
                        yield document
                        left = None if left is None else left - 1
                        if left == 0:
                            return
                    if selected.problem is not None:
                        raise selected.problem
                    if asyncio.get_running_loop().time() >= alive_at:
                        alive_at = asyncio.get_running_loop().time() + _ALIVE_S
                        yield None
                self._positions[partition] = found.next_offset
            if asyncio.get_running_loop().time() >= alive_at:
                alive_at = asyncio.get_running_loop().time() + _ALIVE_S
                yield None

    def _open(self) -> dict[TopicPartition, int]:
        if self._wanted.is_following:
            return self._positions
        return {one: offset for one, offset in self._positions.items() if offset < self._ends[one]}

    async def _fetched(self, *, max_wait_ms: int) -> dict[TopicPartition, FetchedRecords | Fault]:
        open_ = self._open()
        if not open_:
            return {}
        return await fetch_records(
            self._client,
            open_,
            max_wait_ms=max_wait_ms,
            max_bytes=_FETCH_BYTES,
            isolation_level=self._wanted.isolation_level,
        )

    async def _failed(self, partition: TopicPartition, fault: Fault) -> None:
        """Goes on at the first offset if retention deleted the wanted one, and waits for a new leader. Raises the fault
        if a retry cannot help, or has not helped for long."""
        if fault.code is ErrorCode.offset_out_of_range:
            self._positions |= await offset_at(self._client, [partition], Place(Kind.BEGINNING))
            return
        now = asyncio.get_running_loop().time()
        self._failing_since = self._failing_since or now
        if not has_moved(fault) or now - self._failing_since > _RETRY_S:
            raise fault
        self._client.metadata.topics.pop(self._wanted.topic, None)
        await asyncio.sleep(_PAUSE_S)

    def _selected(self, partition: TopicPartition, records: Iterator[Record]) -> Selected:
        """The next of the records that are wanted."""
        wanted = self._wanted
        end = self._ends.get(partition)
        until = time.monotonic() + _SELECT_S
        found: list[JsonObject] = []
        for record in records:
            if end is not None and record.offset >= end:
                continue
            document = shown_record(partition.topic, partition.partition, record, wanted.how, self._schemas)
            try:
                if all(holds(document) for holds in wanted.conditions):
                    found.append(document)
            except Problem as problem:
                return Selected(found, is_all=True, problem=problem)
            if time.monotonic() >= until:
                return Selected(found, is_all=False)
        return Selected(found, is_all=True)


async def ndjson(stream: TopicStream) -> AsyncIterator[bytes]:
    try:
        async for document in stream.documents():
            if document is not None:
                yield dumped(document) + b"\n"
    except (Fault, Problem) as fault:
        yield dumped(_told(fault)) + b"\n"


async def server_sent_events(stream: TopicStream) -> AsyncIterator[bytes]:
    """The stream ends with an event `error` or `end`. A browser closes the connection at these two events, else it
    would connect again."""
    yield b"retry: 2000\n\n"
    try:
        async for document in stream.documents():
            if document is None:
                yield b": alive\n\n"
            else:
                yield b"id: " + stream.event_id().encode() + b"\ndata: " + dumped(document) + b"\n\n"
        yield b"event: end\ndata: {}\n\n"
    except (Fault, Problem) as fault:
        yield b"event: error\ndata: " + dumped(_told(fault)) + b"\n\n"


def _told(fault: Fault | Problem) -> dict[str, object]:
    return (problem_of(fault) if isinstance(fault, Fault) else fault).as_json()


def _resumed(event_id: str | None) -> dict[int, int]:
    if not event_id:
        return {}
    try:
        pairs = [pair.split(":") for pair in event_id.split(",")]
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise bad_request(f"Last-Event-ID {event_id!r}: must be the id of an event of this stream") from None
