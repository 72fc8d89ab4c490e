"""Lag of groups whose coordinator does not lead the partitions that they read."""

from __future__ import annotations

import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from headrace.testing import cluster
from tests.support.clock import wait_for

WRITTEN_MS = 1_700_000_000_000


def test_other_leaders_are_asked_for_ends_and_times() -> None:
    with cluster(3, {"metrics.listen": "127.0.0.1:0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("spread", 6, 1)])["spread"].result(60)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for n in range(60):
            producer.produce("spread", b"value", partition=n % 6, timestamp=WRITTEN_MS)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "reader"})
        consumer.commit(offsets=[TopicPartition("spread", 0, 4)], asynchronous=False)
        consumer.close()
        metrics = [one.broker.metrics for one in running.brokers.values()]
        ports = [one.endpoint.port for one in metrics if one is not None]
        assert len(ports) == 3

        def measured() -> dict[str, list[float]]:
            found: dict[str, list[float]] = {}
            for port in ports:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                    for family in text_string_to_metric_families(answer.read().decode()):
                        for sample in family.samples:
                            if sample.labels.get("group") == "reader":
                                found.setdefault(sample.name, []).append(sample.value)
            return found

        found = wait_for(measured, "the lag of the group")
        assert found["headrace_group_lag_records"] == [56], "one broker, the coordinator, reports it"
        assert len(found["headrace_group_lag_seconds"]) == 1 and found["headrace_group_lag_seconds"][0] > 1000
