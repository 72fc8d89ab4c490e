"""Emulation of older releases of Kafka: clients choose their requests by it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing.in_process import broker
from headrace.testing.older_release import UnknownRelease
from headrace.wire.apis import ApiKey


@pytest.mark.parametrize(
    ("version", "fetch", "offset_fetch"), [("2.8", range(4, 13), 7), ("3.0", range(4, 13), 8), (None, range(13, 19), 9)]
)
def test_librdkafka_uses_the_versions_of_the_release(version: str | None, fetch: range, offset_fetch: int) -> None:
    with broker(version=version) as headrace:
        producer = Producer({"bootstrap.servers": headrace.bootstrap})
        producer.produce("orders", "tea")
        assert producer.flush(20) == 0
        settings = {"group.id": "kitchen", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": headrace.bootstrap, **settings})
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None and message.value() == b"tea"
        used = {seen.header.api_key: seen.header.api_version for seen in headrace.requests(200)}
    assert used[ApiKey.FETCH] in fetch
    assert used[ApiKey.OFFSET_FETCH] == offset_fetch


def test_an_unknown_release_is_refused() -> None:
    with (
        pytest.raises(UnknownRelease, match=r"version='9\.9': releases that can be emulated are 2\.8, 3\.0"),
        broker(version="9.9"),
    ):
        pass
