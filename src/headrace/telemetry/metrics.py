"""The readers of all metrics, and the snapshot at a scrape.

Each part of the broker registers a reader for its metrics when the broker is composed:

    metrics.provide("kafka_server_replicamanager_leadercount", lambda: count)
    metrics.provide("kafka_log_log_size", lambda: (((topic, str(index)), size) for …))     # labelled: rows

`snapshot` runs on the event loop between requests and only collects numbers. The caller formats the text in a thread
(`exposition.render`), because with thousands of partitions that takes tens of milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from headrace.kernel.dataclass import dataclass
from headrace.telemetry.catalogue import CATALOGUE, Metric
from headrace.telemetry.counters import Histogram, TopicTraffic, TrafficByTopic

log = logging.getLogger("headrace.telemetry")

Labels = tuple[str, ...]
Reading = float | Histogram
Reader = Callable[[], Reading | Iterable[tuple[Labels, Reading]]]

_TRAFFIC = {
    "bytesin": "bytes_in",
    "bytesout": "bytes_out",
    "messagesin": "messages_in",
    "replicationbytesout": "replication_bytes_out",
    "totalproducerequests": "produces",
    "totalfetchrequests": "fetches",
    "failedproducerequests": "failed_produces",
    "failedfetchrequests": "failed_fetches",
}


@dataclass(frozen=True, slots=True)
class Row:
    labels: Labels
    value: float
    buckets: tuple[tuple[str, int], ...] = ()
    """Buckets of a histogram: (upper bound, count up to it); `value` is then the sum."""


Snapshot = list[tuple[Metric, list[Row]]]


class Metrics:
    def __init__(self, traffic: TrafficByTopic | None = None) -> None:
        self.traffic = TrafficByTopic() if traffic is None else traffic
        self._readers: dict[str, Reader] = {}
        for name, field in _TRAFFIC.items():
            self.provide(f"kafka_server_brokertopicmetrics_{name}_total", _topic_reader(self.traffic, field))

    def provide(self, name: str, reader: Reader) -> None:
        """`reader` returns the present value of the metric, or (labels, value) rows. A later reader replaces an earlier
        one.
        """
        assert name in CATALOGUE, f"{name} is not in the catalogue"
        self._readers[name] = reader

    def snapshot(self) -> Snapshot:
        """The present values of all metrics. If a reader fails, its metric is missing and the broker logs it."""
        found: Snapshot = []
        for name, reader in self._readers.items():
            metric = CATALOGUE[name]
            try:
                read = reader()
                rows = [((), read)] if isinstance(read, (int, float, Histogram)) else list(read)
                found.append((metric, [_row(labels, value) for labels, value in rows]))
            except Exception:  # the boundary of a metric: a failing reader must not hide the other metrics
                log.exception("metric %s could not be read", name)
        return found


def _topic_reader(traffic: TrafficByTopic, field: str) -> Reader:
    def read() -> list[tuple[Labels, float]]:
        return [((topic,), float(getattr(used, field))) for topic, used in traffic.items()]

    assert field in TopicTraffic.__slots__
    return read


def _row(labels: Labels, value: Reading) -> Row:
    if not isinstance(value, Histogram):
        return Row(labels, value)
    total, buckets = 0, []
    for bound, count in zip((*value.bounds, float("inf")), value.buckets, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), total))
    return Row(labels, value.total, tuple(buckets))
