"""The idempotent producer of the HTTP API: no record is lost, repeated or out of order when answers are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import Unreachable
from headrace.client.record_fetch import FetchedRecords, fetch_records
from headrace.client.record_sender import RecordSender
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record
from headrace.testing import RunningBroker, broker
from headrace.wire.apis import ApiKey


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in ("lossy", "large", "denied")]).values():
            future.result()
        yield started


class LossyClient(ClusterClient):
    """The broker executes every Produce request, and the answer to every second one is lost."""

    produced = 0

    async def request(self, api_key: int, body: Any, **options: Any) -> Any:
        answer = await super().request(api_key, body, **options)
        if api_key == ApiKey.PRODUCE:
            self.produced += 1
            if self.produced % 2:
                raise Unreachable("the answer is lost")
        return answer


def test_lost_answers_repeat_no_record(running: RunningBroker) -> None:
    partition = TopicPartition("lossy", 0)

    async def run() -> tuple[list[list[int | Fault]], list[bytes | None]]:
        sender = RecordSender(LossyClient(running.bootstrap))
        rounds = [[Record(None, f"{n}-{m}".encode(), timestamp_ms=1) for m in range(3)] for n in range(20)]
        first = [await sender.send(partition, records) for records in rounds[:5]]
        rest = await asyncio.gather(*(sender.send(partition, records) for records in rounds[5:]))
        found = (await fetch_records(sender.client, {partition: 0}, max_wait_ms=0))[partition]
        assert isinstance(found, FetchedRecords)
        await sender.close()
        return [*first, *rest], [record.value for record in found.records]

    offsets, values = asyncio.run(run())
    assert values == [f"{n}-{m}".encode() for n in range(20) for m in range(3)]
    assert offsets == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(20)]


class DenyingClient(ClusterClient):
    """The broker executes the first Produce request, whose answer is lost, and the right to write is gone until the
    caller has heard of it."""

    produced = 0

    async def request(self, api_key: int, body: Any, **options: Any) -> Any:
        if api_key == ApiKey.PRODUCE:
            self.produced += 1
            if self.produced == 2:
                raise Refused(ErrorCode.topic_authorization_failed)
        answer = await super().request(api_key, body, **options)
        if self.produced == 1 and api_key == ApiKey.PRODUCE:
            raise Unreachable("the answer is lost")
        return answer


def test_a_batch_after_one_that_is_written_and_refused_is_no_duplicate_of_it(running: RunningBroker) -> None:
    partition = TopicPartition("denied", 0)

    async def run() -> tuple[list[int | Fault], list[int | Fault], list[bytes | None]]:
        sender = RecordSender(DenyingClient(running.bootstrap))
        first = await sender.send(partition, [Record(None, b"first", timestamp_ms=1)])
        second = await sender.send(partition, [Record(None, b"second", timestamp_ms=1)])
        found = (await fetch_records(sender.client, {partition: 0}, max_wait_ms=0))[partition]
        assert isinstance(found, FetchedRecords)
        await sender.close()
        return first, second, [record.value for record in found.records]

    first, second, values = asyncio.run(run())
    assert [one.code for one in first if isinstance(one, Fault)] == [ErrorCode.topic_authorization_failed]
    assert second == [1]
    assert values == [b"first", b"second"]


def test_records_are_split_into_batches_and_a_record_that_is_too_large_fails_alone(running: RunningBroker) -> None:
    partition = TopicPartition("large", 0)

    async def run() -> list[int | Fault]:
        sender = RecordSender(ClusterClient(running.bootstrap))
        sizes = [400_000, 400_000, 400_000, 2_000_000, 10]
        outcomes = await sender.send(partition, [Record(None, b"x" * size, timestamp_ms=1) for size in sizes])
        outcomes += await sender.send(partition, [Record(None, b"after", timestamp_ms=1)])
        await sender.close()
        return outcomes

    outcomes = asyncio.run(run())
    refused = outcomes[3]
    assert isinstance(refused, Fault) and refused.code is ErrorCode.message_too_large
    assert [one for one in outcomes if one is not refused] == [0, 1, 2, 3, 4]
