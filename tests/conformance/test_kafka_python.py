"""kafka-python: produce, consume, groups, administration."""

from __future__ import annotations

import kafka.codec
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_as_they_were_written(bootstrap: str, topic: str, codec: str | None) -> None:
    if codec is not None and not getattr(kafka.codec, f"has_{codec}")():
        pytest.skip(f"kafka-python has no library for {codec} here")
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all")
    sent = [(f"k{n}".encode(), b"v" * (n % 300), [("h", str(n).encode())]) for n in range(300)]
    results = [
        producer.send(topic, value=value, key=key, headers=headers, partition=0, timestamp_ms=1_700_000_000_000)
        for key, value, headers in sent
    ]
    producer.flush(60)
    assert [result.get(10).offset for result in results] == list(range(300))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    found = [next(consumer) for _ in sent]
    assert [(m.key, m.value, list(m.headers)) for m in found] == sent
    assert {m.timestamp for m in found} == {1_700_000_000_000}
    consumer.close()


def test_a_group_resumes_at_its_committed_offsets(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for n in range(20):
        producer.send(topic, str(n).encode())
    producer.flush(60)
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 10_000,
        "enable_auto_commit": False,
    }
    first = KafkaConsumer(topic, **settings)
    assert [next(first).value for _ in range(10)] == [str(n).encode() for n in range(10)]
    first.commit()
    first.close()
    second = KafkaConsumer(topic, **settings)
    assert next(second).value == b"10"
    second.close()
    producer.close()


def test_admin_client_manages_topics_and_configs(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 3, 1)])
    (described,) = list(admin.describe_topics([topic]))
    assert len(described["partitions"]) == 3
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    assert "retention.ms" in str(configs)
    assert topic in admin.list_topics()
    admin.delete_topics([topic])
    admin.close()
