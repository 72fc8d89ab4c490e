"""Appends to the topic in transactions, so that the records of two writers never interleave.

The group of instances elects a leader, but a paused leader does not know that another one replaced it. So all leaders
use the same transactional id. A new leader initialises it first, which fences the old leader: coordinator and brokers
reject its requests and abort its open transaction. Each write is one transaction, and readers read only committed
records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.client.cluster_client import TRANSACTION, check
from headrace.kernel.errors import ErrorCode
from headrace.kernel.json_values import JsonValue
from headrace.records.builder import Record, build_batch
from headrace.registry.store.topic import SchemasTopic, retrying
from headrace.wire.apis import ApiKey

_TRANSACTION_TIMEOUT_MS: Final = 30_000
_BATCH_BYTES: Final = 900_000
_PAUSE_S: Final = 0.003


class FencedWriter:
    """After a failure call `take_over` again, then read to the end. It is unknown whether the transaction was committed
    if `may_be_committed`; otherwise `take_over` aborts it."""

    def __init__(self, topic: SchemasTopic, transactional_id: str, timeout_s: float) -> None:
        self.topic = topic
        self.transactional_id = transactional_id
        self.timeout_s = timeout_s
        self._producer = (-1, -1)
        self._sequence = 0
        self._leader = -1
        self.may_be_committed = False

    async def take_over(self) -> None:
        """Fences every earlier writer."""
        body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": _TRANSACTION_TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }

        async def attempt() -> JsonValue:
            answer = await self._to_coordinator(ApiKey.INIT_PRODUCER_ID, body, at_most=4)
            check(answer.error_code, None, f"producer id of {self.transactional_id!r}")
            return answer

        answer = await retrying(attempt, self.timeout_s)
        self._producer = (int(answer.producer_id), int(answer.producer_epoch))
        self._sequence = 0
        self._leader = await retrying(self.topic.leader, self.timeout_s)

    async def append(self, records: Sequence[Record]) -> int:
        """Writes all records or none. Returns the offset after the last one. Raises Fault."""
        self.may_be_committed = False
        await self._add_partition()
        after = 0
        for batch in _batches(records):
            after = await self._produce(batch)
        self.may_be_committed = True
        body = {**self._identity(), "committed": True}
        answer = await self._to_coordinator(ApiKey.END_TXN, body, at_most=3)
        check(answer.error_code, None, f"commit of {self.transactional_id!r}")
        return after

    def _identity(self) -> dict[str, JsonValue]:
        producer_id, epoch = self._producer
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}

    async def _add_partition(self) -> None:
        producer_id, epoch = self._producer
        body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [{"name": self.topic.name, "partitions": [0]}],
        }
        async with asyncio.timeout(self.timeout_s):
            while True:
                answer = await self._to_coordinator(ApiKey.ADD_PARTITIONS_TO_TXN, body, at_most=3)
                found = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
                # The coordinator is still writing the markers of the previous transaction.
                if found.partition_error_code != ErrorCode.concurrent_transactions:
                    break
                await asyncio.sleep(_PAUSE_S)
        check(found.partition_error_code, None, f"transaction of {self.transactional_id!r}")

    async def _produce(self, records: Sequence[Record]) -> int:
        producer_id, epoch = self._producer
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=self._sequence, transactional=True
        )
        self._sequence += len(records)
        body = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout": int(self.timeout_s * 1000),
            "topic_data": [{"name": self.topic.name, "partition_data": [{"index": 0, "records": batch}]}],
        }
        answer = await self.topic.client.request(ApiKey.PRODUCE, body, node=self._leader, at_most=8)
        found = answer.responses[0].partition_responses[0]
        check(found.error_code, found.error_message, f"write to topic {self.topic.name!r}")
        return int(found.base_offset) + len(records)

    async def _to_coordinator(self, api: ApiKey, body: dict[str, JsonValue], *, at_most: int) -> JsonValue:
        client = self.topic.client
        return await client.to_coordinator(self.transactional_id, api, body, key_type=TRANSACTION, at_most=at_most)


def _batches(records: Sequence[Record]) -> list[list[Record]]:
    found: list[list[Record]] = [[]]
    size = 0
    for record in records:
        size += len(record.key or b"") + len(record.value or b"") + 32
        if size > _BATCH_BYTES and found[-1]:
            found.append([])
            size = len(record.key or b"") + len(record.value or b"") + 32
        found[-1].append(record)
    return found
