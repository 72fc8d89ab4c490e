"""One Apache Kafka for all random histories. It starts once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reference.kafka import ReferenceKafka

# Few partitions of the internal topics, so that every coordinator is found soon. Small groups, so that they fill up.
HISTORY_SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "4",
    "group.min.session.timeout.ms": "300",
    "group.consumer.max.size": "4",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.max.size": "4",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="package")
def history_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceKafka]:
    with ReferenceKafka(tmp_path_factory.mktemp("histories"), settings=HISTORY_SETTINGS, heap="512m") as kafka:
        yield kafka
        kafka.kill()  # no test reads its data again: a clean stop would take seconds
