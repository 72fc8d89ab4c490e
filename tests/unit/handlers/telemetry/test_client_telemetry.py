"""Clients push metrics to a broker that offers it, and its metrics endpoint shows them (KIP-714)."""

from __future__ import annotations

import re
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.kernel.ids import uuid_to_text
from headrace.net.free_ports import free_port
from headrace.records.compression import Codec, compress
from headrace.testing.in_process import RunningBroker, broker
from tests.differential.servers import Server
from tests.support.clock import wait_for
from tests.support.names import unique
from tests.unit.handlers.telemetry.one_connection import OneConnection
from tests.unit.telemetry.clients.test_pushed_metrics import counter, gauge, message

GET, PUSH, API_VERSIONS = 71, 72, 18


class Offering:
    def __init__(self, running: RunningBroker, metrics_port: int) -> None:
        self.running = running
        self.server = Server("ours", running.port)
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"

    def subscribe(self, name: str, **values: str) -> None:
        configs = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value} for key, value in values.items()
        ]
        resource = {"resource_type": 16, "resource_name": name, "configs": configs}
        answer = self.server.ask(44, 1, {"resources": [resource], "validate_only": False})
        assert answer["responses"][0]["error_code"] == 0, answer

    def shown(self) -> str:
        with urllib.request.urlopen(self._metrics, timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    def ask(self, instance: uuid.UUID | None = None) -> Any:
        return self.server.ask(GET, 0, {"client_instance_id": instance})

    def push(self, instance: uuid.UUID | None, subscription: int, metrics: bytes = b"", **other: Any) -> int:
        body = {
            "client_instance_id": instance,
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": metrics,
            **other,
        }
        code: int = self.server.ask(PUSH, 0, body)["error_code"]
        return code


@pytest.fixture(scope="module")
def offering() -> Iterator[Offering]:
    port = free_port()
    settings = {
        "client.telemetry.enable": "true",
        "metrics.listen": f"127.0.0.1:{port}",
        "telemetry.max.bytes": "4000",
    }
    with broker(settings) as running:
        yield Offering(running, port)


def test_a_broker_offers_telemetry_only_if_it_is_switched_on(offering: Offering) -> None:
    def offered(server: Server) -> set[int]:
        answer = server.ask(API_VERSIONS, 3, {"client_software_name": "t", "client_software_version": "1"})
        return {row["api_key"] for row in answer["api_keys"]}

    assert {GET, PUSH} <= offered(offering.server)
    with broker() as plain:
        assert not {GET, PUSH} & offered(Server("plain", plain.port))


def test_librdkafka_pushes_metrics_by_itself(offering: Offering) -> None:
    client_id = unique("shop")
    offering.subscribe(client_id, metrics="*", interval_ms="100", match=f"client_id={client_id}")
    producer = Producer({"bootstrap.servers": offering.running.bootstrap, "client.id": client_id})
    producer.produce(unique("orders"), b"value")
    producer.flush(60)
    wanted = re.compile(
        r'headrace_client_metric\{.*client_id="'
        + client_id
        + r'".*metric="org\.apache\.kafka\.producer\.[^"]+".*\} \S+'
    )
    wait_for(lambda: producer.poll(0) or wanted.search(offering.shown()), "metrics of the producer")
    assert re.search(r"headrace_client_metrics_pushes_total [1-9]", offering.shown())


def test_a_client_gets_the_subscriptions_that_match_it(offering: Offering) -> None:
    name = unique("some")
    assert offering.ask()["requested_metrics"] == []
    assert offering.ask()["push_interval"] == 300_000
    offering.subscribe(
        name, metrics="org.apache.kafka.a,org.apache.kafka.b", interval_ms="5000", match="client_id=diff.*"
    )
    offering.subscribe(name + "-no", metrics="*", interval_ms="200", match="client_id=somebody")
    answer = offering.ask()
    assert answer["requested_metrics"] == ["org.apache.kafka.a", "org.apache.kafka.b"]
    assert (answer["push_interval"], answer["telemetry_max_bytes"]) == (5000, 4000)
    assert answer["accepted_compression_types"] == [4, 3, 1, 2] and answer["delta_temporality"]
    offering.subscribe(name, match="client_id=somebody")


def test_errors_of_pushes(offering: Offering) -> None:
    name = unique("errors")
    offering.subscribe(name, metrics="*", interval_ms="60000", match="client_id=differential")
    # One connection per request: the broker forgets a client with its connection, so the codes of a first push show.
    metrics = message(gauge("a.rate", 1.5), counter("b.total", 2, 1))
    assert offering.push(None, 0) == 42, "INVALID_REQUEST"
    assert offering.push(uuid.UUID(int=1), 0) == 42, "a reserved id"
    client = offering.ask()
    instance, subscription = client["client_instance_id"], client["subscription_id"]
    assert offering.push(instance, subscription + 1, metrics) == 117, "UNKNOWN_SUBSCRIPTION_ID"
    assert offering.push(instance, subscription, metrics, compression_type=9) == 76, "UNSUPPORTED_COMPRESSION_TYPE"
    assert offering.push(instance, subscription, bytes(5000)) == 118, "TELEMETRY_TOO_LARGE"
    assert offering.push(instance, subscription, b"\x0a\xff") == 87, "INVALID_RECORD"
    for codec in Codec:
        instance = uuid.uuid4()
        subscription = offering.ask(instance)["subscription_id"]
        data = compress(codec, metrics)
        assert offering.push(instance, subscription, data, compression_type=int(codec)) == 0
        assert f'client_instance_id="{instance}"' in offering.shown()
    offering.subscribe(name, match="client_id=somebody")


def test_requests_before_the_end_of_an_interval_are_throttled(offering: Offering) -> None:
    name = unique("early")
    offering.subscribe(name, metrics="*", interval_ms="60000", match="client_id=one-connection")
    with OneConnection(offering.running.port) as client:
        answer = client.ask(GET, {"client_instance_id": None})
        known = {"client_instance_id": answer.client_instance_id}
        body = {**known, "subscription_id": answer.subscription_id, "terminating": False, "compression_type": 0}
        assert client.ask(GET, known).error_code == 89, "THROTTLING_QUOTA_EXCEEDED"
        assert client.ask(PUSH, {**body, "metrics": b""}).error_code == 0, "the first push may come early"
        assert client.ask(PUSH, {**body, "metrics": b""}).error_code == 89
        offering.subscribe(name, interval_ms="50000")
        assert client.ask(PUSH, {**body, "metrics": b""}).error_code == 117, "the subscription has changed"
        offering.subscribe(name, interval_ms="40000")
        changed = client.ask(GET, known)
        assert changed.error_code == 0, "at once, because it has changed"
        assert changed.push_interval.total_seconds() == 40
        last = {**body, "subscription_id": changed.subscription_id, "terminating": True}
        assert client.ask(PUSH, {**last, "metrics": b""}).error_code == 0
        assert client.ask(PUSH, {**body, "metrics": b""}).error_code == 42, "after the last push"
    offering.subscribe(name, match="client_id=somebody")


def test_patterns_match_software_and_instance(offering: Offering) -> None:
    instance = uuid.uuid4()
    name = unique("software")
    match = f"client_software_name=probe,client_software_version=1\\..*,client_instance_id={uuid_to_text(instance)}"
    offering.subscribe(name, metrics="org.apache", interval_ms="100", match=match)
    for version, found in (("1.2", ["org.apache"]), ("2.0", [])):
        with OneConnection(offering.running.port) as client:
            client.ask(API_VERSIONS, {"client_software_name": "probe", "client_software_version": version}, version=3)
            assert list(client.ask(GET, {"client_instance_id": instance}).requested_metrics) == found
