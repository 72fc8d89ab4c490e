"""librdkafka through confluent-kafka: the operations of ordinary users."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.clock import wait_for

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce_all(bootstrap: str, topic: str, messages: list[dict[str, Any]], **settings: Any) -> list[Message]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def done(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            delivered.append(message)

    for message in messages:
        producer.produce(topic, on_delivery=done, **message)
    assert producer.flush(60) == 0
    assert failed == []
    return delivered


def consume_all(bootstrap: str, topic: str, count: int, partitions: int = 1, **settings: Any) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **settings})
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[Message] = []

        def all_read() -> bool:
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None, message.error()
                found.append(message)
            return len(found) >= count

        wait_for(all_read, lambda: f"{count} records, {len(found)} are read", poll=0)
        return found
    finally:
        consumer.close()


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_are_read_as_they_were_written(bootstrap: str, topic: str, codec: str, idempotent: bool) -> None:
    sent = [
        {
            "key": f"key-{n}".encode() if n % 3 else None,
            "value": b"x" * (n % 700) if n % 7 else None,
            "headers": [("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None)] if n % 2 else None,
            "timestamp": 1_700_000_000_000 + n,
        }
        for n in range(1000)
    ]
    settings = {"compression.type": codec, "enable.idempotence": idempotent}
    delivered = produce_all(bootstrap, topic, sent, **settings)
    assert sorted(m.offset() for m in delivered) == list(range(1000))
    found = consume_all(bootstrap, topic, len(sent))
    assert [m.offset() for m in found] == list(range(1000))
    for message, given in zip(found, sent, strict=True):
        assert message.key() == given["key"]
        assert message.value() == given["value"]
        assert message.headers() == given["headers"]
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, given["timestamp"])


def test_broker_sets_timestamps_of_a_log_append_time_topic(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1000
    produce_all(bootstrap, topic, [{"value": b"v", "timestamp": 5}])
    (message,) = consume_all(bootstrap, topic, 1)
    kind, stamp = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert stamp >= before


def test_records_below_the_size_limit_are_accepted_and_larger_ones_rejected(bootstrap: str, topic: str) -> None:
    produce_all(bootstrap, topic, [{"value": b"x" * 999_000}])
    assert len(consume_all(bootstrap, topic, 1)[0].value()) == 999_000
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 10_000_000})
    errors: list[KafkaError] = []
    producer.produce(topic, b"x" * 2_000_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_large_record_is_accepted_if_the_topic_allows_it(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, max_message_bytes="20000000")
    settings = {"message.max.bytes": 20_000_000}
    produce_all(bootstrap, topic, [{"value": bytes(range(256)) * 60_000}], **settings)
    (message,) = consume_all(bootstrap, topic, 1, **{"fetch.message.max.bytes": 1000})
    assert message.value() == bytes(range(256)) * 60_000


def test_each_of_many_partitions_keeps_its_order(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=50)
    sent = [{"key": str(n % 200).encode(), "value": str(n).encode()} for n in range(10_000)]
    produce_all(bootstrap, topic, sent)
    found = consume_all(bootstrap, topic, len(sent), partitions=50)
    assert len(found) == len(sent)
    last: dict[bytes, int] = {}
    for message in found:
        number = int(message.value())
        assert last.get(message.key(), -1) < number
        last[message.key()] = number


def test_a_group_shares_a_topic_and_resumes_at_its_committed_offsets(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=4)
    settings = {"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}

    def drain(consumers: list[Consumer], enough: Callable[[list[Message]], bool]) -> list[Message]:
        found: list[Message] = []

        def drained() -> bool:
            for consumer in consumers:
                found.extend(m for m in consumer.consume(100, 0.1) if m.error() is None)
            return enough(found)

        wait_for(drained, lambda: f"the consumers, which have read {len(found)} records", poll=0)
        return found

    consumers = [Consumer(settings) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    # Once the group is stable, no record is delivered twice.
    assert drain(consumers, lambda _: [len(one.assignment()) for one in consumers] == [2, 2]) == []
    produce_all(bootstrap, topic, [{"key": str(n).encode(), "value": str(n).encode()} for n in range(400)])
    found = drain(consumers, lambda found: len(found) >= 400)
    assert {int(m.value()) for m in found} == set(range(400))
    for consumer in consumers:
        consumer.close()  # commits the delivered offsets
    produce_all(bootstrap, topic, [{"value": b"new"}])
    again = Consumer(settings)
    again.subscribe([topic])
    assert [m.value() for m in drain([again], lambda found: len(found) >= 1)] == [b"new"]
    again.close()


def test_read_committed_hides_aborted_records(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    for word, commit in (("one", True), ("two", False), ("three", True)):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, f"{word}-{n}".encode())
        if commit:
            producer.commit_transaction(20)
        else:
            producer.flush(60)
            producer.abort_transaction(20)
    committed = consume_all(bootstrap, topic, 20, **{"isolation.level": "read_committed"})  # type: ignore[arg-type]
    assert [m.value().decode() for m in committed] == [f"{w}-{n}" for w in ("one", "three") for n in range(10)]
    everything = consume_all(bootstrap, topic, 30, **{"isolation.level": "read_uncommitted"})  # type: ignore[arg-type]
    assert len(everything) == 30


def test_offsets_by_time_and_watermarks(bootstrap: str, topic: str) -> None:
    produce_all(bootstrap, topic, [{"value": b"v", "timestamp": 1000 * n} for n in range(1, 11)])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 10)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 4500)], timeout=60)
    assert found.offset == 4
    consumer.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0)
    latest = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(60)
    newest = admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].result(60)
    assert (latest.offset, newest.offset, newest.timestamp) == (10, 9, 10_000)


def test_admin_client_manages_topics_configs_and_records(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create(bootstrap, topic, partitions=2, retention_ms="1000000")
    with pytest.raises(KafkaException) as refused:
        create(bootstrap, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(60)
    assert len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 5
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(60)
    assert configs["retention.ms"].value == "1000000"
    entry = ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(60)
    assert admin.describe_configs([resource])[resource].result(60)["retention.ms"].value == "2000000"
    produce_all(bootstrap, topic, [{"value": b"v", "partition": 0} for _ in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    (low,) = [future.result(60) for future in deleted.values()]
    assert low.low_watermark == 4
    admin.delete_topics([topic])[topic].result(60)
    assert admin.list_topics(timeout=60).topics.get(topic) is None


@pytest.mark.parametrize(
    ("name", "config", "code"),
    [
        ("bad/name", {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, {}, KafkaError.TOPIC_EXCEPTION),
        ("fine", {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
        ("fine", {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topics_are_rejected_with_kafkas_error_code(
    bootstrap: str, name: str, config: dict[str, str], code: int
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(60)
    assert refused.value.args[0].code() == code
    assert refused.value.args[0].str()


def test_an_unknown_partition_fails_in_the_client(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    with pytest.raises(KafkaException) as refused:
        consumer.get_watermark_offsets(TopicPartition(topic, 9), timeout=5)
    assert refused.value.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
    consumer.close()
