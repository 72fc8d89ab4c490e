"""Metrics of a running pipeline for Prometheus: `headrace pipeline run DIR --metrics 127.0.0.1:9404`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.progress import RUNNING
from headrace.pipelines.flows.running_flow import RunningFlow

_LABELS: Final = ("pipeline", "flow")
# Name, meaning, attribute of the progress. A name that ends with _total is a counter.
_NUMBERS: Final = (
    ("rows_read_total", "Rows that the flow read since its driver started.", "read_rows"),
    ("rows_written_total", "Rows that the flow wrote since its driver started.", "written_rows"),
    ("rows_dropped_total", "Rows that the watermark or an expectation dropped.", "dropped_rows"),
    ("dead_letters_total", "Dead letters that the flow wrote.", "dead_letters"),
    ("restarts_total", "Starts after a failure.", "restarts"),
    ("lag", "Records that the flow has not read yet.", "lag"),
    ("lag_bytes", "Bytes of a database's log that the flow has not read yet.", "lag_bytes"),
    ("lag_seconds", "How long the flow has been behind.", "lag_seconds"),
    ("batch_ms", "Duration of the last batch.", "batch_ms"),
    ("state_rows", "Rows in the state of the flow.", "state_rows"),
)


class FlowMetrics(Collector):
    """Reads the progress of the flows when Prometheus asks. The run's thread owns the progress and replaces numbers
    only, so a reader in another thread sees numbers of one batch or the next."""

    def __init__(self, flows: Callable[[], Sequence[RunningFlow]]) -> None:
        self._flows = flows

    def collect(self) -> Iterable[Metric]:
        flows = list(self._flows())
        for name, meaning, attribute in _NUMBERS:
            family = _family(name, meaning, _LABELS)
            for flow in flows:
                value = getattr(flow.progress, attribute)
                if value is not None:
                    family.add_metric(_labels(flow), value)
            yield family
        running = GaugeMetricFamily("headrace_pipeline_running", "1 while the flow runs.", labels=_LABELS)
        for flow in flows:
            running.add_metric(_labels(flow), 1 if flow.progress.state == RUNNING else 0)
        yield running
        yield from _rules(flows)


def _rules(flows: Sequence[RunningFlow]) -> Iterator[Metric]:
    labels = (*_LABELS, "rule", "action")
    for count, meaning in (("checked", "Rows that a rule checked."), ("failed", "Rows that did not satisfy a rule.")):
        family = _family(f"rule_{count}_total", meaning, labels)
        for flow in flows:
            for name, rule in list(flow.rules().items()):
                value = rule["checked"] if count == "checked" else rule["failed"]
                family.add_metric([*_labels(flow), name, rule["action"]], value)
        yield family


def _family(name: str, meaning: str, labels: Sequence[str]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(f"headrace_pipeline_{name}", meaning, labels=labels)


def _labels(flow: RunningFlow) -> list[str]:
    return [flow.progress.pipeline, flow.name]


@contextmanager
def served_metrics(address: str | None, flows: Callable[[], Sequence[RunningFlow]]) -> Iterator[int]:
    """Serves /metrics at HOST:PORT until the run ends; nothing without an address. Yields the port."""
    if address is None:
        yield 0
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise OptionError(f"--metrics {address!r}: must be HOST:PORT, for example 127.0.0.1:9404")
    registry = CollectorRegistry()
    registry.register(FlowMetrics(flows))
    try:
        server, _thread = start_http_server(int(port), host, registry)
    except OSError as error:
        raise OptionError(f"--metrics {address!r}: cannot listen there: {error.strerror}") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
