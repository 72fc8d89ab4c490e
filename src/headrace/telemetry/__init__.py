"""Watching a broker: its log lines and its metrics.

    logs        how lines look; the loggers and their levels, which BROKER_LOGGER configs show and change
    catalogue   every metric: name, kind, labels, meaning
    counters    plain numbers that the hot path adds to
    metrics     who provides each metric; reads them all at a scrape
    exposition  their text, by prometheus-client
    endpoint    the HTTP door for Prometheus (`metrics.listen`)
    loop_lag    how late the event loop runs
    reference   writes docs/reference/metrics.md

Nothing here is done per request but adding to a plain integer. Text is made at a scrape, in a thread.
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
