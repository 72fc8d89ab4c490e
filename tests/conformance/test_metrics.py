"""Metrics of a running broker, under the names that dashboards for Kafka use."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from headrace.telemetry.catalogue import CATALOGUE, Kind
from headrace.testing import RunningBroker, broker

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(settings={"metrics.listen": "127.0.0.1:0"}) as started:
        yield started


def scrape(running: RunningBroker) -> tuple[set[str], Samples]:
    """(names of all metrics, samples by name and labels)"""
    assert running.broker.metrics is not None
    address = f"http://127.0.0.1:{running.broker.metrics.endpoint.port}/metrics"
    with urllib.request.urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    names: set[str] = set()
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        names.add(family.name)
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return names, samples


def test_every_metric_of_the_reference_page_is_exported(running: RunningBroker) -> None:
    names, _ = scrape(running)
    for metric in CATALOGUE.values():
        assert (metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name) in names


def test_traffic_logs_and_requests_are_counted(running: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for _ in range(10):
        producer.produce(topic, bytes(1000))
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, 10)) == 10
    _, now = scrape(running)
    of_topic, of_partition = (("topic", topic),), (("partition", "0"), ("topic", topic))
    assert now["kafka_server_brokertopicmetrics_messagesin_total", of_topic] == 10
    assert now["kafka_server_brokertopicmetrics_bytesin_total", of_topic] > 10_000
    assert now["kafka_server_brokertopicmetrics_bytesout_total", of_topic] > 10_000
    assert now["kafka_log_log_logendoffset", of_partition] == 10
    assert now["kafka_log_log_size", of_partition] > 10_000
    assert now["kafka_network_requestmetrics_requests_total", (("request", "Produce"),)] >= 1
    assert now["kafka_network_requestmetrics_totaltime_seconds_count", (("request", "Produce"),)] >= 1
    assert now["kafka_server_socketservermetrics_connection_count", (("listener", "PLAINTEXT"),)] >= 2
    assert now["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0
    assert now["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert now["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 1
    consumer.close()


def test_without_metrics_listen_the_broker_opens_no_metrics_port() -> None:
    with broker() as quiet:
        assert quiet.broker.metrics is not None
        assert quiet.broker.metrics.endpoint.port == 0
