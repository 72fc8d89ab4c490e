"""New records as they arrive.

A person cannot read thousands of rows a second and a browser cannot draw them: the newest few of each quarter second
are shown, with the number of the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.console.records.decoding import Decoding, ShownRecord
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record
from headrace.records.reader import iter_records
from headrace.records.unreadable import UnreadableBatch
from headrace.records.visible import visible_batches, whole_batches
from headrace.wire.apis import ApiKey

_EVERY_S: Final = 0.25
_SHOWN: Final = 20
# A browser that went away is noticed when something is sent.
_KEEP_ALIVE_S: Final = 15.0
_WAIT_MS: Final = 500
_PARTITION_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Arrived:
    records: tuple[ShownRecord, ...]
    """The newest first."""
    left_out: int


class Tail:
    """Follows all partitions of a topic with one long poll to each leader, on connections of its own."""

    def __init__(
        self, client: ClusterClient, decoding: Decoding, leaders: Mapping[int, int], ends: Mapping[int, int]
    ) -> None:
        self._client = client
        self._decoding = decoding
        self._leaders = leaders
        self._at = dict(ends)
        self._waiting: deque[tuple[int, Record]] = deque(maxlen=_SHOWN)
        self._count = 0

    async def arriving(self) -> AsyncIterator[Arrived | None]:
        """None when nothing arrived for a while. Raises Fault if a leader cannot be followed."""
        nodes = sorted(set(self._leaders.values()))
        tasks = [asyncio.create_task(self._follow(node)) for node in nodes]
        last_s = time.monotonic()
        try:
            while True:
                done, _ = await asyncio.wait(tasks, timeout=_EVERY_S, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
                if self._count:
                    yield self._taken()
                    last_s = time.monotonic()
                elif time.monotonic() - last_s > _KEEP_ALIVE_S:
                    yield None
                    last_s = time.monotonic()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()

    def _taken(self) -> Arrived:
        found = sorted(self._waiting, key=lambda one: (one[1].timestamp_ms, one[1].offset), reverse=True)
        left_out = self._count - len(found)
        self._waiting.clear()
        self._count = 0
        return Arrived(tuple(self._decoding.record(partition, record) for partition, record in found), left_out)

    async def _follow(self, node: int) -> None:
        own = [partition for partition, leader in self._leaders.items() if leader == node]
        while True:
            asked = [
                {
                    "partition": partition, "current_leader_epoch": -1, "fetch_offset": self._at[partition],
                    "log_start_offset": -1, "partition_max_bytes": _PARTITION_BYTES,
                }
                for partition in own
            ]  # fmt: skip
            body = {
                "replica_id": -1, "max_wait": _WAIT_MS, "min_bytes": 1, "max_bytes": 8 * _PARTITION_BYTES,
                "isolation_level": 0, "session_id": 0, "session_epoch": -1,
                "topics": [{"topic": self._decoding.topic, "partitions": asked}], "forgotten_topics_data": [],
                "rack_id": "",
            }  # fmt: skip
            # Version 12 and later use topic ids or other forms of batches' bounds; 11 is enough to read.
            answer = await self._client.request(ApiKey.FETCH, body, node=node, at_most=11)
            for topic in answer.responses:
                for part in topic.partitions:
                    self._take(int(part.partition_index), ErrorCode(part.error_code), part.records)

    def _take(self, partition: int, code: ErrorCode, records: bytes | None) -> None:
        if code is not ErrorCode.none:
            raise Refused(code, f"{self._decoding.topic}-{partition}: {code.name}")
        start, chunk = self._at[partition], memoryview(records or b"")
        size, next_offset = whole_batches(chunk)
        # Also past batches that are not shown, for example the marker at the end of a transaction.
        self._at[partition] = max(next_offset, start)
        try:
            for batch in visible_batches(chunk[:size], (), start):
                self._count += batch.record_count
                # The last few of a batch: its others would be left out anyway.
                self._waiting.extend((partition, record) for record in deque(iter_records(batch), maxlen=_SHOWN))
        except UnreadableBatch as fault:
            raise fault.of(self._decoding.topic, partition) from fault
