"""Apache Kafka's Java clients push their metrics (KIP-714), and the broker's metrics endpoint shows them."""

from __future__ import annotations

import re
import urllib.request

import pytest

from headrace.net.free_ports import free_port
from headrace.testing import broker
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.java_client import JavaProgram
from tests.support.names import unique

COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"


@pytest.mark.needs("kafka")
@pytest.mark.skipif(not is_long(), reason="long: HEADRACE_EFFORT=long; librdkafka's pushes are in tests/unit/handlers")
def test_java_clients_push_what_a_subscription_of_kafkas_own_tool_asks_for() -> None:
    port, topic = free_port(), unique("measured")
    settings = {"client.telemetry.enable": "true", "metrics.listen": f"127.0.0.1:{port}"}

    def value(metric: str) -> float:
        """The highest value of a metric of any client; 0 if none has pushed it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        found = re.findall(rf'^headrace_client_metric{{.*metric="{re.escape(metric)}".*}} (\S+)$', text, re.MULTILINE)
        return max(map(float, found), default=0)

    with broker(settings) as running:
        wanted = "org.apache.kafka.producer.record.send,org.apache.kafka.consumer.fetch.manager.records"
        made = kafka_tool(
            *(COMMAND, "--bootstrap-server", running.bootstrap, "--alter", "--name", unique("all")),
            *("--metrics", wanted, "--interval", "500"),
        )
        assert made.code == 0, made
        program = JavaProgram("LoadClient", running.bootstrap, topic, "java", "20")
        try:
            wait_for(lambda: value("org.apache.kafka.producer.record.send.total") > 10, "metrics of the producer")
            wait_for(
                lambda: value("org.apache.kafka.consumer.fetch.manager.records.consumed.total") > 10,
                "metrics of the consumer",
            )
        finally:
            program.kill()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            names = set(re.findall(r'headrace_client_metric{.*metric="([^"]+)"', answer.read().decode()))
        assert all(name.startswith(tuple(wanted.split(","))) for name in names), names
