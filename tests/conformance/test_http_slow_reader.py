"""A reader that does not read stops the fetches of its own stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.client.cluster_client import ClusterClient
from headrace.client.places import Kind, Place
from headrace.client.record_fetch import fetch_records
from headrace.http.records import stream
from headrace.testing import broker

RECORDS = 40


def test_the_stream_fetches_only_after_its_reader_took_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    fetches: list[int] = []

    async def counted(*given: Any, **options: Any) -> Any:
        fetches.append(1)
        return await fetch_records(*given, **options)

    monkeypatch.setattr(stream, "fetch_records", counted)
    with broker({"num.partitions": "1"}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap, "linger.ms": 0, "batch.size": 1000})
        for _ in range(RECORDS):
            producer.produce("slow", b"x" * 500_000)
            producer.flush()

        async def run() -> None:
            client = ClusterClient(running.bootstrap)
            wanted = stream.Wanted("slow", (0,), Place(Kind.BEGINNING), "string", (), None, False, None, 0)
            reading = stream.TopicStream(client, None, wanted)
            await reading.start()
            at_start = len(fetches)
            lines = stream.ndjson(reading)
            await anext(lines)
            await asyncio.sleep(0)
            assert len(fetches) == at_start + 1, "one fetch, although forty records wait"
            count = 1 + len([line async for line in lines])
            assert count == RECORDS and len(fetches) > RECORDS / 4
            await client.close()

        asyncio.run(run())
