"""The log lines and metrics of a broker.

    logs        the format of log lines; the loggers and their levels (BROKER_LOGGER configs)
    catalogue   every metric: name, kind, labels, meaning
    counters    counters that the hot path increments
    metrics     the reader of each metric; reads all metrics at a scrape
    exposition  formats metrics as text, with prometheus-client
    endpoint    the HTTP endpoint for Prometheus (`metrics.listen`)
    loop_lag    measures event-loop lag
    reference   writes docs/reference/metrics.md
    clients     metrics that clients push
    monitoring  alert rules for Prometheus and dashboards for Grafana

A request only increments plain integers. Text is formatted at a scrape, in a thread.
"""

from __future__ import annotations

from headrace.telemetry.counters import Histogram, TopicTraffic, TrafficByTopic
from headrace.telemetry.endpoint import MetricsEndpoint
from headrace.telemetry.logs import Loggers, set_up_logging
from headrace.telemetry.loop_lag import LoopLag
from headrace.telemetry.metrics import Metrics

__all__ = [
    "Histogram",
    "Loggers",
    "LoopLag",
    "Metrics",
    "MetricsEndpoint",
    "TopicTraffic",
    "TrafficByTopic",
    "set_up_logging",
]
