"""What Prometheus reads from a broker."""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.config import ConfigError
from headrace.telemetry import Histogram, LoopLag, Metrics, MetricsEndpoint
from headrace.telemetry.exposition import render


def read(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    _, body = render(metrics.snapshot())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_traffic_is_counted_by_topic() -> None:
    metrics = Metrics()
    orders = metrics.traffic["orders"]
    orders.bytes_in += 100
    orders.bytes_in += 50
    metrics.traffic["other"].bytes_out += 7
    values = read(metrics)
    assert values["kafka_server_brokertopicmetrics_bytesin_total", (("topic", "orders"),)] == 150
    assert values["kafka_server_brokertopicmetrics_bytesout_total", (("topic", "other"),)] == 7
    assert values["process_resident_memory_bytes", ()] > 0


def test_gauges_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    partitions = {("orders", "0"): 10, ("orders", "1"): 20}
    metrics.provide("kafka_log_log_size", lambda: list(partitions.items()))
    metrics.provide("kafka_server_replicamanager_underreplicatedpartitions", lambda: 3)
    partitions["orders", "1"] = 30
    values = read(metrics)
    assert values["kafka_log_log_size", (("partition", "1"), ("topic", "orders"))] == 30
    assert values["kafka_server_replicamanager_underreplicatedpartitions", ()] == 3


def test_latencies_fall_into_buckets_that_add_up() -> None:
    metrics, produce = Metrics(), Histogram((0.001, 0.1))
    for seconds in (0.0005, 0.001, 0.05, 7):
        produce.observe(seconds)
    metrics.provide("kafka_network_requestmetrics_totaltime_seconds", lambda: [(("Produce",), produce)])
    values = read(metrics)
    name, label = "kafka_network_requestmetrics_totaltime_seconds", ("request", "Produce")
    buckets = [values[f"{name}_bucket", (("le", bound), label)] for bound in ("0.001", "0.1", "+Inf")]
    assert buckets == [2, 3, 4]
    assert values[f"{name}_count", (label,)] == 4
    assert values[f"{name}_sum", (label,)] == pytest.approx(7.0515)


def test_a_reader_that_fails_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    metrics.provide("kafka_server_replicamanager_leadercount", lambda: 1 // 0)
    metrics.provide("kafka_server_replicamanager_partitioncount", lambda: 5)
    values = read(metrics)
    assert values["kafka_server_replicamanager_partitioncount", ()] == 5
    assert ("kafka_server_replicamanager_leadercount", ()) not in values


def test_undeclared_metric_fails_an_assertion() -> None:
    with pytest.raises(AssertionError):
        Metrics().provide("made_up", lambda: 1)


def get(port: int, path: str = "/metrics", accept: str = "") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_prometheus_scrapes_over_http() -> None:
    async def scenario() -> None:
        metrics = Metrics()
        metrics.traffic["orders"].bytes_in += 1
        endpoint = MetricsEndpoint(metrics)
        await endpoint.start("127.0.0.1:0")
        try:
            status, kind, body = await asyncio.to_thread(get, endpoint.port)
            assert (status, kind.split(";")[0]) == (200, "text/plain")
            assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 1.0' in body
            status, kind, body = await asyncio.to_thread(get, endpoint.port, "/metrics", "application/openmetrics-text")
            assert kind.startswith("application/openmetrics-text")
            assert body.endswith("# EOF\n")
            status, _, body = await asyncio.to_thread(get, endpoint.port, "/")
            assert (status, body) == (404, "metrics are at /metrics\n")
        finally:
            await endpoint.stop()

    asyncio.run(scenario())


def test_invalid_requests_on_the_metrics_port_do_no_harm() -> None:
    async def scenario() -> None:
        endpoint = MetricsEndpoint(Metrics())
        await endpoint.start("127.0.0.1:0")
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(b"x" * 100_000)
            assert await reader.read() == b""
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(b"POST /metrics HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 405 ")
            writer.close()
            assert (await asyncio.to_thread(get, endpoint.port))[0] == 200
        finally:
            await endpoint.stop()

    asyncio.run(scenario())


def test_error_names_an_address_that_cannot_be_bound() -> None:
    async def start(listen: str) -> None:
        await MetricsEndpoint(Metrics()).start(listen)

    with pytest.raises(ConfigError, match="metrics.listen='nowhere': must be host:port"):  # noqa: RUF043
        asyncio.run(start("nowhere"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="cannot be listened on"):
        asyncio.run(start(f"127.0.0.1:{taken.getsockname()[1]}"))


def test_blocked_event_loop_shows_in_the_lag() -> None:
    async def scenario() -> Histogram:
        lag = LoopLag()
        loop = asyncio.get_running_loop()
        lag.start(loop)
        loop.call_later(0.24, time.sleep, 0.2)  # blocks the loop while the timer is due
        await asyncio.sleep(0.5)
        lag.stop()
        return lag.histogram

    assert asyncio.run(scenario()).total > 0.1


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"])
def test_metrics_are_served_to_other_machines_only_if_http_is_named(listen: str) -> None:
    async def start(text: str) -> None:
        endpoint = MetricsEndpoint(Metrics())
        try:
            await endpoint.start(text)
        finally:
            await endpoint.stop()

    with pytest.raises(ConfigError, match=r"without encryption: say so, metrics\.listen=http://"):
        asyncio.run(start(listen))
    asyncio.run(start("http://127.0.0.1:0"))
    asyncio.run(start("localhost:0"))
