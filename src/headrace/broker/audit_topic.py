"""Denied requests as JSON records in a topic (`audit.topic`).

    {"time_ms": 1763340000000, "broker": 1, "principal": "User:bob", "host": "10.0.0.7", "operation": "READ",
     "resource_type": "TOPIC", "resource_name": "orders", "request": "Fetch", "allowed": false, "rule": "DefaultDeny"}

Records wait in a bounded queue while the topic has no leader. When the queue is full the broker counts further denials
and writes their number as a record {"time_ms": …, "broker": 1, "not_recorded": 42}. One task writes, and it ends when
the queue is empty. Each broker writes to one partition, so that its denials stay in order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.peers import Peers
from headrace.coordinators.topic_writer import TopicWriter
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.builder import Record
from headrace.replication.partitions import Partitions

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
_PER_BATCH: Final = 500
# Below the default of max.message.bytes: a batch that the topic refuses would hold back all later ones.
_BATCH_BYTES: Final = 500_000
# Characters of a name in a record. Clients choose the names, and a longer one is no name of a resource.
_LONGEST_TEXT: Final = 1000
_PAUSE_S: Final = 1.0
_CLOSE_WITHIN_S: Final = 1.0


class Creation(Protocol):
    async def ensure(self, name: str) -> bool: ...


class AuditTopic:
    """Owned by the event loop."""

    def __init__(
        self,
        name: str,
        broker_id: int,
        view: ClusterView,
        partitions: Partitions,
        peers: Peers,
        creation: Creation,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._name = name
        self._broker_id = broker_id
        self._view = view
        self._writer = TopicWriter(broker_id, view, partitions, peers, clock)
        self._creation = creation
        self._waiting: deque[Record] = deque()
        self._lost = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, denial: Mapping[str, object]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._lost += 1
        else:
            self._waiting.append(self._record(denial))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def close(self) -> None:
        """Waits a moment for queued records to be written."""
        task = self._task
        if task is not None:
            await asyncio.wait([task], timeout=_CLOSE_WITHIN_S)
            task.cancel()
            await asyncio.wait([task])

    def _record(self, fields: Mapping[str, object]) -> Record:
        now_ms = self._clock.wall_ms()
        shown = {name: _cut(value) for name, value in fields.items()}
        text = json.dumps({"time_ms": now_ms, "broker": self._broker_id, **shown})
        return Record(None, text.encode(), timestamp_ms=now_ms)

    async def _write_all(self) -> None:
        """Writes until the queue is empty. Retries while the topic's leader fails."""
        try:
            while self._waiting or self._lost:
                if self._lost and len(self._waiting) < MAX_WAITING:
                    self._waiting.append(self._record({"not_recorded": self._lost}))
                    self._lost = 0
                batch = self._next_batch()
                try:
                    await self._write(batch)
                except Fault as fault:
                    logger.warning("denied requests wait to be written to topic %s: %s", self._name, fault.message)
                    await asyncio.sleep(_PAUSE_S)
                else:
                    for _ in batch:
                        self._waiting.popleft()
        finally:
            self._task = None

    def _next_batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        for record in islice(self._waiting, _PER_BATCH):
            size += len(record.value or b"")
            if batch and size > _BATCH_BYTES:
                break
            batch.append(record)
        return batch

    async def _write(self, records: list[Record]) -> None:
        if not await self._creation.ensure(self._name):
            raise Refused(ErrorCode.unknown_topic_or_partition, "the topic could not be created yet")
        topic = self._view.current.topics.get(self._name)
        if topic is None or not topic.partitions:
            raise Refused(ErrorCode.unknown_topic_or_partition, "the topic is not known yet")
        await self._writer.write(self._name, self._broker_id % len(topic.partitions), records, acks=1)


def _cut(value: object) -> object:
    return value if not isinstance(value, str) or len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
