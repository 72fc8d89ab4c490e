"""Emulation of older releases of Kafka: clients choose their requests by it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing.emulation.kafka_releases import RELEASES
from headrace.testing.emulation.older_release import UnknownRelease
from headrace.testing.in_process import broker
from headrace.wire.apis import ApiKey
from tests.support.group_requests import Client, consumer_beat, patient_find, share_beat
from tests.support.java_client import JavaProgram


@pytest.mark.parametrize(
    ("version", "fetch", "offset_fetch"),
    [
        ("2.8", range(4, 13), 7),
        ("3.0", range(4, 13), 8),
        ("3.5", range(13, 16), 8),
        ("3.9", range(13, 18), 9),
        (None, range(13, 19), 9),
    ],
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


@pytest.mark.parametrize(("version", "highest", "error"), [("3.9", 0, 35), ("4.0", 1, 0)])
def test_consumer_groups_are_for_the_releases_that_have_them(version: str, highest: int, error: int) -> None:
    """3.9 offers their heartbeat, and refuses it with its default settings."""
    with broker(version=version) as headrace:
        headrace.create_topic("t")
        client = Client(headrace.bootstrap)
        patient_find(client, "kitchen")
        assert int(consumer_beat(client, "kitchen", "a", 0, highest).error_code) == error
        with pytest.raises(AssertionError, match="the broker closed the connection"):
            share_beat(client, "kitchen", "a", 0)
        client.close()


@pytest.mark.needs("kafka")
def test_the_java_client_chooses_its_transactions_by_the_features() -> None:
    """With transaction.version 2, which 4.0 has, the brokers add partitions to a transaction, and not the client."""
    with JavaProgram("TransactionalClient") as java:
        for version, adds_partitions in (("3.9", True), ("4.0", False)):
            with broker(version=version) as headrace:
                headrace.create_topic("orders")
                java.ask(f"open {version} bootstrap.servers={headrace.bootstrap} transactional.id=till")
                for step in (
                    f"init {version}",
                    f"begin {version}",
                    f"send {version} orders 0 tea",
                    f"commit {version}",
                ):
                    java.ask(step)
                java.ask(f"close {version}")
                used = {seen.header.api_key for seen in headrace.requests(200)}
            assert (ApiKey.ADD_PARTITIONS_TO_TXN in used) is adds_partitions, version


def test_the_table_is_within_what_is_served() -> None:
    """No release offers more than Kafka 4.3, and a later release offers no less, but for what KRaft did not have."""
    with broker() as headrace:
        served = {key: highest for key, _, highest in headrace.broker.parts.table.advertised()}
    # AlterPartition, AllocateProducerIds and others are between brokers, or for a registered controller only.
    known = {key: version for release in RELEASES.values() for key, version in release.highest.items()}
    assert {key: version for key, version in known.items() if key in served and version > served[key]} == {}
    for (older, before), (newer, after) in pairwise(RELEASES.items()):
        lost = {key for key, version in before.highest.items() if after.highest.get(key, -1) < version}
        assert lost == ({38, 39, 40, 41, 50, 51} if newer == "3.3" else set()), (older, newer)


def test_an_unknown_release_is_refused() -> None:
    with (
        pytest.raises(UnknownRelease, match=r"version='9\.9': releases that can be emulated are 2\.8, 3\.0, .*, 4\.2$"),
        broker(version="9.9"),
    ):
        pass
