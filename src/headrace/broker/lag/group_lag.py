"""Measures the lag of the groups that this broker coordinates, in the background.

Ends of partitions that this broker leads are read from their logs; other leaders are asked, one request to each. The
time of an unread record needs its batch: the header on the local disk, or one fetch from the leader. Times are kept by
offset, so a group that stands still costs nothing, and a round looks up a limited number of new ones.

A round takes longer with more groups. The task rests fifty times as long as a round took. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from headrace.broker.lag.figures import Positions, Span, TopicLag, topic_lags
from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES, BatchView
from headrace.replication.partitions import Partitions
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

_log = logging.getLogger("headrace.telemetry")

EVERY_S: Final = 5.0
_REST_FACTOR: Final = 50
_GROUPS_AT_A_STRETCH: Final = 200
_LOOKUPS_PER_ROUND: Final = 500
_EARLIEST, _LATEST = -2, -1
# The last version that names topics.
_FETCH_VERSION: Final = 11

Place = tuple[TopicPartition, int]
Rows = Iterator[tuple[tuple[str, ...], float]]


class Peers(Protocol):
    async def request(self, broker_id: int, api_key: int, body: Body, *, version: int | None = None) -> Entity: ...


class GroupLag:
    def __init__(
        self,
        coordinator: GroupCoordinator,
        partitions: Partitions,
        view: ClusterView,
        peers: Peers,
        broker_id: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._coordinator = coordinator
        self._partitions = partitions
        self._view = view
        self._peers = peers
        self._broker_id = broker_id
        self._clock = clock
        self._lags: dict[tuple[str, str], TopicLag] = {}
        self._written_ms: dict[Place, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="lag of groups")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def records(self) -> Rows:
        return ((place, lag.records) for place, lag in self._lags.items())

    def seconds(self) -> Rows:
        now_ms = self._clock.wall_ms()
        found = ((place, lag.seconds(self._written_ms, now_ms)) for place, lag in self._lags.items())
        return ((place, age_s) for place, age_s in found if age_s is not None)

    async def _run(self) -> None:
        while True:
            began = time.perf_counter()
            try:
                await self.measure()
            except Exception:  # boundary of a round: a failure must not end the measuring
                _log.exception("the lag of groups could not be measured; it is tried again")
            await asyncio.sleep(max(EVERY_S, _REST_FACTOR * (time.perf_counter() - began)))

    async def measure(self) -> None:
        """One round."""
        positions = await self._positions()
        image = self._view.current
        topics = {topic for committed in positions.values() for topic in committed if topic in image.topics}
        counts = {topic: len(image.topics[topic].partitions) for topic in topics}
        spans = await self._spans(counts)
        lags: dict[tuple[str, str], TopicLag] = {}
        for at, (group, committed) in enumerate(positions.items(), start=1):
            lags |= {(group, topic): lag for topic, lag in topic_lags(committed, spans, counts)}
            if at % _GROUPS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
        await self._look_up({place for lag in lags.values() for place in lag.unread})
        self._lags = lags

    async def _positions(self) -> dict[str, Positions]:
        found: dict[str, Positions] = {}
        for _, hosted in list(self._coordinator.runtime.active_shards()):
            offsets = hosted.shard.offsets.offsets
            for at, group in enumerate(offsets.group_ids(), start=1):
                committed = offsets.of_group(group)
                found[group] = {
                    topic: {index: value.offset for index, value in parts.items()} for topic, parts in committed.items()
                }
                if at % _GROUPS_AT_A_STRETCH == 0:
                    await asyncio.sleep(0)
        return found

    async def _spans(self, counts: Mapping[str, int]) -> dict[TopicPartition, Span]:
        spans: dict[TopicPartition, Span] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, count in counts.items():
            for index in range(count):
                partition = TopicPartition(topic, index)
                here = self._partitions.get(topic, index)
                if here is not None and here.is_leader:
                    spans[partition] = here.log.log_start_offset, here.log.high_watermark
                elif (leader := self._leader(partition)) is not None:
                    by_leader.setdefault(leader, []).append(partition)
        for leader, asked in by_leader.items():
            first, last = await asyncio.gather(
                self._offsets(leader, asked, _EARLIEST), self._offsets(leader, asked, _LATEST)
            )
            spans |= {partition: (first[partition], last[partition]) for partition in first if partition in last}
        return spans

    def _leader(self, partition: TopicPartition) -> int | None:
        info = self._view.current.partition(partition.topic, partition.partition)
        return None if info is None or info.leader < 0 or info.leader == self._broker_id else info.leader

    async def _offsets(self, leader: int, asked: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Partitions that do not answer are missing."""
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, index in asked:
            question = {"partition_index": index, "current_leader_epoch": -1, "timestamp": at}
            topics.setdefault(topic, []).append(question)
        body = {
            "replica_id": -1, "isolation_level": 0, "timeout": 10_000,
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        }  # fmt: skip
        try:
            answer = await self._peers.request(leader, ApiKey.LIST_OFFSETS, body)
        except (Fault, OSError, TimeoutError):
            return {}
        return {
            TopicPartition(str(topic.name), int(part.partition_index)): int(part.offset)
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code == ErrorCode.none
        }

    async def _look_up(self, wanted: set[Place]) -> None:
        known = {place: self._written_ms[place] for place in wanted if place in self._written_ms}
        for place in sorted(wanted - known.keys())[:_LOOKUPS_PER_ROUND]:
            written_ms = self._on_disk(place)
            if written_ms is None:
                written_ms = await self._at_leader(place)
            else:
                await asyncio.sleep(0)
            if written_ms is not None and written_ms >= 0:
                known[place] = written_ms
        self._written_ms = known

    def _on_disk(self, place: Place) -> int | None:
        (topic, index), offset = place
        here = self._partitions.get(topic, index)
        if here is None or not here.is_leader:
            return None
        try:
            found = here.log.read(offset, 1, up_to=here.log.high_watermark)
        except Fault:
            return None
        if found is None:
            return None
        return _written_ms(os.pread(found.file.fileno(), HEADER_BYTES, found.position))

    async def _at_leader(self, place: Place) -> int | None:
        partition, offset = place
        leader = self._leader(partition)
        if leader is None:
            return None
        asked = {
            "partition": partition.partition, "current_leader_epoch": -1, "fetch_offset": offset,
            "log_start_offset": -1, "partition_max_bytes": 1,
        }  # fmt: skip
        body = {
            "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0, "session_id": 0,
            "session_epoch": -1, "topics": [{"topic": partition.topic, "partitions": [asked]}],
            "forgotten_topics_data": [], "rack_id": "",
        }  # fmt: skip
        try:
            answer = await self._peers.request(leader, ApiKey.FETCH, body, version=_FETCH_VERSION)
        except (Fault, OSError, TimeoutError):
            return None
        found = next((part.records for topic in answer.responses for part in topic.partitions), None)
        return _written_ms(found or b"")


def _written_ms(batch: bytes) -> int | None:
    """The timestamp of a batch: that of its first record, or when the broker appended it."""
    if len(batch) < HEADER_BYTES:
        return None
    header = BatchView(memoryview(batch))
    return header.base_timestamp_ms if header.base_timestamp_ms >= 0 else header.max_timestamp_ms
