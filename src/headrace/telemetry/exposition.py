"""Formats a snapshot of the metrics as text, with prometheus-client.

It uses only its arguments, so it can run in any thread. It is imported at the first scrape, so that a broker without
`metrics.listen` does not load the library.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from headrace.telemetry.catalogue import Kind
from headrace.telemetry.metrics import Snapshot


def render(snapshot: Snapshot, accept: str = "") -> tuple[str, bytes]:
    """(content type, body) in the format that the client accepts."""
    registry = CollectorRegistry()
    registry.register(_Collected(snapshot))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


class _Collected:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Family]:
        return []

    def collect(self) -> Iterator[Family]:
        for metric, rows in self._snapshot:
            if metric.kind is Kind.HISTOGRAM:
                histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
                for row in rows:
                    histogram.add_metric(row.labels, row.buckets, row.value)
                yield histogram
            else:
                family = _FAMILIES[metric.kind](metric.name, metric.meaning, labels=metric.labels)
                for row in rows:
                    family.add_metric(row.labels, row.value)
                yield family


_FAMILIES = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
}
