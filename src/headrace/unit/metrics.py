"""The metrics of a unit: one endpoint with the sums of all processes.

At a scrape the supervisor asks every process that serves, and adds up what they answer. Counters, histograms and most
gauges are sums. What every process reports about the same thing is not added: the topics of the cluster, the end of a
log with replicas on two processes, the oldest certificate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headrace.telemetry import Metrics, MetricsEndpoint

log = logging.getLogger("headrace.unit")

_PATIENCE_S: Final = 8.0
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LARGEST: Final = frozenset(
    {
        "kafka_controller_kafkacontroller_activebrokercount",
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "kafka_controller_kafkacontroller_globaltopiccount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_log_log_logendoffset",
        "headrace_build_info",
        "process_max_fds",
        "process_start_time_seconds",
        "python_info",
    }
)
_SMALLEST: Final = frozenset(
    {"kafka_log_log_logstartoffset", "headrace_certificate_expiry_seconds", "headrace_coordination_session_up"}
)
_SAME_ON_ALL: Final = "headrace_pipeline_"
RESTARTS: Final = "headrace_unit_restarts"
PROCESSES: Final = "headrace_unit_processes"


class UnitMetrics(MetricsEndpoint):
    def __init__(self, ports: Callable[[], list[int]], restarts: Callable[[], int]) -> None:
        """`ports`: the metrics endpoints of the processes that serve."""
        super().__init__(Metrics())
        self._ports = ports
        self._restarts = restarts

    async def text(self, accept: str) -> tuple[str, bytes]:
        ports = self._ports()
        answers = await asyncio.gather(*map(_scraped, ports), return_exceptions=True)
        texts = [one for one in answers if isinstance(one, str)]
        for one in answers:
            if isinstance(one, Exception):
                log.warning("the metrics of one process are missing: %s", one)
        own = {PROCESSES: (float(len(texts)), "Processes of the unit that serve", "gauge")}
        own[RESTARTS] = (float(self._restarts()), "Processes that died and were started again", "counter")
        return _CONTENT_TYPE, await asyncio.to_thread(summed, texts, own)


async def _scraped(port: int) -> str:
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.close()
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise OSError(f"the process answered {head[:50]!r}")
    return body.decode()


def _combine(name: str) -> Callable[[Iterable[float]], float]:
    if name in _LARGEST or name.startswith(_SAME_ON_ALL):
        return max
    return min if name in _SMALLEST else sum


def summed(texts: Iterable[str], own: Mapping[str, tuple[float, str, str]]) -> bytes:
    """Adds up texts in Prometheus' format; `own`: value, meaning and kind of metrics without labels."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            rows = values.setdefault(family.name, {})
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    rows.setdefault((sample.name, tuple(sample.labels.items())), []).append(sample.value)
    for name, rows in values.items():
        combine = _combine(name)
        for (sample_name, labels), numbers in rows.items():
            families[name].add_sample(sample_name, dict(labels), combine(numbers))
    for name, (value, meaning, kind) in own.items():
        families[name] = Metric(name, meaning, kind)
        families[name].add_sample(f"{name}_total" if kind == "counter" else name, {}, value)

    class Collected:
        def collect(self) -> Iterable[Metric]:
            return families.values()

    registry = CollectorRegistry()
    registry.register(Collected())
    return bytes(generate_latest(registry))
