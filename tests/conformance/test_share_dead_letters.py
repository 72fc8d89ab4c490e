"""Dead letters of share groups (KIP-1191) with librdkafka's share consumer. Kafka 4.3.0 has none to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.testing import RunningBroker, broker
from headrace.testing.process_cluster import process_cluster
from tests.support.clock import wait_for
from tests.support.names import unique

LETTERS = "errors.deadletterqueue.topic.name"
PERMISSION = {"errors.deadletterqueue.group.enable": "true"}
REJECTED, SPENT = "Offset rejected by client.", "Offset delivery count exceeded the threshold."


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker({"group.share.min.record.lock.duration.ms": "1000"}) as started:
        yield started


class Shop:
    """A topic with records, a share group that reads it, and a topic for its dead letters."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str] | None = None,
        *,
        replicas: int = 1,
        letters: str | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.orders, self.group, self.letters = unique("orders"), unique("packers"), letters or unique("dlq.orders")
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self.create(self.orders, 3, replicas=replicas)
        self.configure({"share.auto.offset.reset": "earliest", LETTERS: self.letters, **(settings or {})})

    def create(self, topic: str, partitions: int, config: dict[str, str] | None = None, *, replicas: int = 1) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, replicas, config=config or {})])[topic].result(60)

    def configure(self, settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(60)

    def order(self, count: int, partition: int = 2) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": "zstd"})
        for number in range(count):
            producer.produce(
                self.orders, f"value {number}", f"key {number}", partition, headers=[("trace", str(number).encode())]
            )
        assert producer.flush(60) == 0

    def pack(self, answer: AcknowledgeType, deliveries: int) -> None:
        """A member that gives this answer to so many deliveries."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.group}
        consumer = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
        consumer.subscribe([self.orders])
        seen = 0

        def is_done() -> bool:
            nonlocal seen
            for message in consumer.poll(1.0):
                assert message.error() is None, message.error()
                consumer.acknowledge(message, answer)
                seen += 1
            consumer.commit_sync(30)
            return seen >= deliveries

        try:
            wait_for(is_done, lambda: f"{deliveries} deliveries, not {seen}")
        finally:
            consumer.close()

    def read_letters(self, count: int) -> list[Message]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": unique("reader")})
        partitions = self._admin.list_topics(self.letters, timeout=30).topics[self.letters].partitions
        consumer.assign([TopicPartition(self.letters, partition, 0) for partition in partitions])
        found: list[Message] = []
        try:
            wait_for(lambda: len(found.__iadd__(consumer.consume(100, 0.5))) >= count, f"{count} letters", poll=0)
        finally:
            consumer.close()
        return found


def context_of(letter: Message) -> dict[str, str]:
    return {name.removeprefix("__dlq.errors."): value.decode() for name, value in letter.headers() if "__" in name}


def test_a_rejected_record_becomes_a_letter_that_names_it(running: RunningBroker) -> None:
    shop = Shop(running.bootstrap)
    shop.create(shop.letters, 2, PERMISSION)
    shop.order(3)
    shop.pack(AcknowledgeType.REJECT, 3)
    letters = shop.read_letters(3)
    assert [(letter.partition(), letter.key(), letter.value()) for letter in letters] == [(0, None, None)] * 3
    assert [context_of(letter) for letter in letters] == [
        {
            "topic": shop.orders,
            "partition": "2",
            "offset": str(offset),
            "group": shop.group,
            "delivery.count": "1",
            "message": REJECTED,
        }
        for offset in range(3)
    ]


def test_a_record_that_was_delivered_too_often_is_copied_if_the_group_wants_that(running: RunningBroker) -> None:
    copies = {"errors.deadletterqueue.copy.record.enable": "true", "share.delivery.count.limit": "2"}
    shop = Shop(running.bootstrap, copies)
    shop.create(shop.letters, 1, PERMISSION)
    shop.order(600)
    shop.pack(AcknowledgeType.RELEASE, 1200)
    letters = shop.read_letters(600)
    assert [letter.value() for letter in letters] == [f"value {number}".encode() for number in range(600)]
    assert (letters[7].key(), letters[7].headers()[0]) == (b"key 7", ("trace", b"7"))
    assert {(context_of(letter)["message"], context_of(letter)["delivery.count"]) for letter in letters} == {
        (SPENT, "2")
    }


def test_a_record_too_large_for_the_topic_leaves_a_letter_without_content(running: RunningBroker) -> None:
    shop = Shop(running.bootstrap, {"errors.deadletterqueue.copy.record.enable": "true"})
    shop.create(shop.letters, 1, {**PERMISSION, "max.message.bytes": "1000"})
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for size in (10, 5_000, 10):
        producer.produce(shop.orders, bytes(size), partition=0)
    assert producer.flush(60) == 0
    shop.pack(AcknowledgeType.REJECT, 3)
    assert [len(letter.value() or b"") for letter in shop.read_letters(3)] == [10, 0, 10]


def test_a_missing_topic_is_created_only_if_the_brokers_allow_it() -> None:
    with broker({"errors.deadletterqueue.auto.create.topics.enable": "true"}) as running:
        shop = Shop(running.bootstrap)
        shop.order(2)
        shop.pack(AcknowledgeType.REJECT, 2)
        assert len(shop.read_letters(2)) == 2


@pytest.mark.parametrize(
    ("name", "config", "why"),
    [
        ("dlq.missing", None, "there is no such topic"),
        ("dlq.closed", {}, "does not permit it: set errors.deadletterqueue.group.enable=true"),
        ("invoices", PERMISSION, "its name must begin with 'dlq.'"),
    ],
)
def test_a_topic_that_does_not_permit_letters_gets_none_and_the_group_goes_on(
    running: RunningBroker, caplog: pytest.LogCaptureFixture, name: str, config: dict[str, str] | None, why: str
) -> None:
    shop = Shop(running.bootstrap, letters=name)
    if config is not None:
        shop.create(name, 1, config)
    shop.order(2)
    shop.pack(AcknowledgeType.REJECT, 2)
    shop.order(1)
    shop.pack(AcknowledgeType.ACCEPT, 1)
    assert why in caplog.text and f"offsets 0 to 1 of {shop.orders}-2 are archived without a dead letter" in caplog.text


def test_a_letter_waits_for_its_leader_on_another_broker() -> None:
    with process_cluster(3) as cluster:
        shop = Shop(cluster.bootstrap, replicas=3)
        shop.create(shop.letters, 3, PERMISSION, replicas=3)
        shop.order(5)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(admin.list_topics(shop.letters, timeout=30).topics[shop.letters].partitions[2].leader)
        shop.pack(AcknowledgeType.REJECT, 5)
        offsets = {context_of(letter)["offset"] for letter in shop.read_letters(5)}
        assert offsets == {str(offset) for offset in range(5)}
