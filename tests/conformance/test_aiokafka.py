"""aiokafka: produce, consume, groups, transactions on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.support.clock import PATIENCE_S


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_as_they_were_written(bootstrap: str, topic: str, codec: str | None) -> None:
    async def test() -> None:
        sent = [(f"k{n}".encode(), b"v" * (n % 300), (("h", b"1"),)) for n in range(300)]
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True
        ) as producer:
            futures = [
                await producer.send(topic, value, key, partition=0, headers=list(headers))
                for key, value, headers in sent
            ]
            assert [(await future).offset for future in futures] == list(range(300))
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=f"g-{topic}"
        ) as consumer:
            found = [await consumer.getone() for _ in sent]
            assert [(m.key, m.value, m.headers) for m in found] == sent
            await consumer.commit()

    run(test)


def test_records_of_an_aborted_transaction_are_not_read(bootstrap: str, topic: str) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept")
            with pytest.raises(ValueError, match="no"):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"dropped")
                    raise ValueError("no")
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept too")
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"kept", b"kept too"]

    run(test)
