"""An idempotent producer on an event loop.

    sender = RecordSender(client)
    offsets = await sender.send(TopicPartition("orders", 0), [Record(None, b"…", timestamp_ms=now)])

Each partition has a queue and at most one batch in flight, so records keep the order in which they were given. Records
that wait for one partition leave in one batch. The sender retries a batch with its sequence number until the delivery
time-out, so a lost answer does not write it twice. After a batch whose outcome is unknown the sender takes a new
producer id, because the sequence of the old one may have a gap.

The caller awaits each send, and this limits how much waits in the queues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import NoAnswer, Unreachable
from headrace.client.record_fetch import MOVED
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record, build_batch
from headrace.wire.apis import ApiKey

# Below Kafka's default of max.message.bytes (1 MiB). A larger record travels alone, and the broker decides.
_BATCH_BYTES: Final = 900_000
_RECORD_OVERHEAD_BYTES: Final = 32
_PAUSE_S: Final = 0.05
_TRANSIENT: Final = MOVED | {
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.coordinator_load_in_progress,
}
_SEQUENCE_LOST: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})


@dataclass(frozen=True, slots=True)
class _Producer:
    id: int
    epoch: int


_WITHOUT_ID: Final = _Producer(-1, -1)


class _Waiting:
    def __init__(self, records: Sequence[Record], delivered: asyncio.Future[int]) -> None:
        self.records = records
        self.delivered = delivered
        self.size = sum(map(_size, records))


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers) if record.headers else 0
    return len(record.key or b"") + len(record.value or b"") + headers + _RECORD_OVERHEAD_BYTES


def _split(records: Sequence[Record]) -> list[Sequence[Record]]:
    parts: list[list[Record]] = [[]]
    room = _BATCH_BYTES
    for record in records:
        size = _size(record)
        if size > room and parts[-1]:
            parts.append([])
            room = _BATCH_BYTES
        parts[-1].append(record)
        room -= size
    return [part for part in parts if part]


class _Queue:
    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.task: asyncio.Task[None] | None = None
        self.producer = _WITHOUT_ID
        self.sequence = 0


class RecordSender:
    """Owned by the event loop."""

    def __init__(self, client: ClusterClient, *, delivery_timeout_s: float = 30.0) -> None:
        self.client = client
        self._delivery_timeout_s = delivery_timeout_s
        self._queues: dict[TopicPartition, _Queue] = {}
        self._producer: _Producer | None = None
        self._asking = asyncio.Lock()

    async def send(self, partition: TopicPartition, records: Sequence[Record]) -> list[int | Fault]:
        """For each record its offset, or the fault of its batch. Batches larger than the limit are split."""
        parts = _split(records)
        futures = [self._enqueued(partition, part) for part in parts]
        outcomes: list[int | Fault] = []
        for part, future in zip(parts, futures, strict=True):
            try:
                first = await future
            except Fault as fault:
                outcomes += [fault] * len(part)
            else:
                outcomes += range(first, first + len(part))
        return outcomes

    def _enqueued(self, partition: TopicPartition, records: Sequence[Record]) -> asyncio.Future[int]:
        queue = self._queues.setdefault(partition, _Queue())
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        queue.waiting.append(_Waiting(records, future))
        if queue.task is None:
            queue.task = loop.create_task(self._drain(partition, queue))
        return future

    async def _drain(self, partition: TopicPartition, queue: _Queue) -> None:
        try:
            while queue.waiting:
                batch = [queue.waiting.popleft()]
                size = batch[0].size
                while queue.waiting and size + queue.waiting[0].size <= _BATCH_BYTES:
                    size += queue.waiting[0].size
                    batch.append(queue.waiting.popleft())
                await self._deliver(partition, queue, batch)
        finally:
            queue.task = None

    async def _deliver(self, partition: TopicPartition, queue: _Queue, batch: list[_Waiting]) -> None:
        records = [record for one in batch for record in one.records]
        try:
            offset = await self._append(partition, queue, records)
        except Fault as fault:
            for one in batch:
                if not one.delivered.done():
                    one.delivered.set_exception(fault)
            return
        except BaseException:
            # Boundary of the task: after a cancellation, no caller may wait for ever.
            for one in (*batch, *queue.waiting):
                one.delivered.cancel()
            raise
        for one in batch:
            if not one.delivered.done():
                one.delivered.set_result(offset)
            offset += len(one.records)

    async def _append(self, partition: TopicPartition, queue: _Queue, records: Sequence[Record]) -> int:
        """Sends one batch until the broker has written or refused it."""
        deadline = asyncio.get_running_loop().time() + self._delivery_timeout_s
        await self._number(queue)
        data = self._batch(queue, records)
        is_sent = may_be_written = False
        while True:
            try:
                leader = await self._leader(partition)
                is_sent = True
                offset = await self._produce(partition, leader, data)
            except Fault as fault:
                may_retry = isinstance(fault, Unreachable | NoAnswer) or fault.code in _TRANSIENT
                if fault.code in _SEQUENCE_LOST:
                    self._producer = None
                may_be_written |= may_retry and is_sent
                if not may_retry or asyncio.get_running_loop().time() > deadline:
                    if may_be_written:
                        self._producer = None  # the broker would take the next batch for a repetition of this one
                    raise
                self.client.metadata.topics.pop(partition.topic, None)
                await asyncio.sleep(_PAUSE_S)
                continue
            queue.sequence = (queue.sequence + len(records)) & 0x7FFFFFFF
            return offset

    async def _number(self, queue: _Queue) -> None:
        producer = await self._identity()
        if queue.producer != producer:
            queue.producer, queue.sequence = producer, 0

    async def _identity(self) -> _Producer:
        async with self._asking:
            if self._producer is None:
                body = {
                    "transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1,
                }  # fmt: skip
                answer = await self.client.request(ApiKey.INIT_PRODUCER_ID, body)
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.cluster_authorization_failed:
                    return _WITHOUT_ID  # the caller may write to no topic at all; the broker says so for each
                if code is not ErrorCode.none:
                    raise Refused(code, f"InitProducerId: {code.name}")
                self._producer = _Producer(int(answer.producer_id), int(answer.producer_epoch))
            return self._producer

    def _batch(self, queue: _Queue, records: Sequence[Record]) -> bytes:
        if queue.producer is _WITHOUT_ID:
            return build_batch(records)
        producer = queue.producer
        return build_batch(
            records, producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=queue.sequence
        )

    async def _leader(self, partition: TopicPartition) -> int:
        known = self.client.metadata.topics.get(partition.topic)
        if known is None or known.error_code:
            leaders = await self.client.leaders([partition.topic])
        else:
            leaders = {
                TopicPartition(partition.topic, int(one.partition_index)): int(one.leader_id)
                for one in known.partitions
            }
        if partition not in leaders:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"partition {partition} does not exist")
        if leaders[partition] < 0:
            raise Refused(ErrorCode.leader_not_available, f"{partition} has no leader")
        return leaders[partition]

    async def _produce(self, partition: TopicPartition, leader: int, data: bytes) -> int:
        written = {"index": partition.partition, "records": data}
        body = {
            "transactional_id": None,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [{"name": partition.topic, "partition_data": [written]}],
        }
        answer = await self.client.request(ApiKey.PRODUCE, body, node=leader, at_most=11)
        result = answer.responses[0].partition_responses[0]
        code = ErrorCode(result.error_code)
        if code is ErrorCode.duplicate_sequence_number:
            return int(result.base_offset)
        if code is not ErrorCode.none:
            raise Refused(code, f"{partition}: {getattr(result, 'error_message', None) or code.name}")
        return int(result.base_offset)

    async def close(self) -> None:
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.close()
