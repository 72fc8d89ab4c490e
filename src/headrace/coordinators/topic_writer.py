"""Writes records of the broker itself to a partition of an ordinary topic: here, or over the wire at its leader."""

from __future__ import annotations

from typing import Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.peers import Peers
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record, build_writable_batch
from headrace.replication.partition import Partition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body

ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 5000
_PRODUCE_VERSION: Final = 9


class LedPartitions(Protocol):
    def led(self, topic: str, index: int) -> Partition: ...


class TopicWriter:
    """Owned by the event loop."""

    def __init__(
        self, broker_id: int, view: ClusterView, partitions: LedPartitions, peers: Peers, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._partitions = partitions
        self._peers = peers
        self._clock = clock

    async def write(self, topic: str, index: int, records: list[Record], *, acks: int) -> None:
        """One batch. With acks=-1 it returns when the batch is committed. Raises a Fault; the records may be written
        then, if no answer came."""
        known = self._view.current.topics.get(topic)
        if known is None or index >= len(known.partitions):
            raise Refused(ErrorCode.unknown_topic_or_partition, f"there is no {topic}-{index}")
        leader = known.partitions[index].leader
        data = build_writable_batch(records)
        if leader == self._broker_id:
            code = await self._write_here(topic, index, data, acks)
        else:
            code = await self._write_there(leader, topic, index, bytes(data), acks)
        if code is not ErrorCode.none:
            raise Refused(code, f"broker {leader} answers {code.name}")

    async def _write_here(self, topic: str, index: int, data: bytearray, acks: int) -> ErrorCode:
        partition = self._partitions.led(topic, index)
        appended = partition.append(memoryview(data), acks=acks, now_ms=self._clock.wall_ms())
        if acks != ACKS_ALL:
            return ErrorCode.none
        return await partition.wait_committed(appended.last_offset + 1, _TIMEOUT_MS)

    async def _write_there(self, leader: int, topic: str, index: int, data: bytes, acks: int) -> ErrorCode:
        body: Body = {
            "transactional_id": None,
            "acks": acks,
            "timeout": _TIMEOUT_MS,
            "topic_data": [{"name": topic, "partition_data": [{"index": index, "records": data}]}],
        }
        answer = await self._peers.request(leader, ApiKey.PRODUCE, body, version=_PRODUCE_VERSION)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)
