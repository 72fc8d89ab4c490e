"""Grafana dashboards: the cluster, its topics and groups, and Spark flows.

A dashboard is a list of panels; a panel is a title, its queries and a unit. Grafana's JSON is made from them. The data
source is a variable of the dashboard, so that the files can be imported anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

_COLUMNS: Final = 24
_STAT_HEIGHT, _CHART_HEIGHT = 4, 8
_SCHEMA_VERSION: Final = 39
_SOURCE: Final[dict[str, JsonValue]] = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: tuple[tuple[str, str], ...]
    """(expression, legend)"""
    unit: str = "short"
    """A unit of Grafana."""
    kind: str = "timeseries"
    width: int = 12
    bad_above: float | None = None
    """A number above this is red."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...]


def _stat(title: str, expression: str, unit: str = "short", bad_above: float | None = None) -> Panel:
    return Panel(title, ((expression, ""),), unit, "stat", 4, bad_above)


def _traffic(field: str, by: str = "topic") -> str:
    return f"sum by ({by}) (rate(kafka_server_brokertopicmetrics_{field}_total[$__rate_interval]))"


_FLOW: Final = "{{pipeline}}.{{flow}}"
DASHBOARDS: Final = (
    Dashboard(
        "headrace-cluster", "Headrace: cluster",
        (
            _stat("Brokers", "max(kafka_controller_kafkacontroller_activebrokercount)"),
            _stat(
                "Partitions without a leader", "max(kafka_controller_kafkacontroller_offlinepartitionscount)",
                bad_above=0,
            ),
            _stat(
                "Partitions with a shrunk ISR", "sum(kafka_server_replicamanager_underreplicatedpartitions)",
                bad_above=0,
            ),
            _stat("Failed disks", "sum(kafka_log_logmanager_offlinelogdirectorycount)", bad_above=0),
            _stat("Topics", "max(kafka_controller_kafkacontroller_globaltopiccount)"),
            _stat("Groups", "sum(kafka_coordinator_group_groupmetadatamanager_numgroups)"),
            Panel("Bytes written", ((_traffic("bytesin", "instance"), "{{instance}}"),), "Bps"),
            Panel("Bytes read", ((_traffic("bytesout", "instance"), "{{instance}}"),), "Bps"),
            Panel("Records written", ((_traffic("messagesin", "instance"), "{{instance}}"),), "cps"),
            Panel(
                "Requests",
                (("sum by (request) (rate(kafka_network_requestmetrics_requests_total[$__rate_interval]))",
                  "{{request}}"),),
                "reqps",
            ),
            Panel(
                "Time of a request, 99 of 100",
                (("histogram_quantile(0.99, sum by (request, le) "
                  "(rate(kafka_network_requestmetrics_totaltime_seconds_bucket[$__rate_interval])))", "{{request}}"),),
                "s",
            ),
            Panel(
                "Event loop lag, 99 of 100",
                (("histogram_quantile(0.99, sum by (instance, le) "
                  "(rate(headrace_event_loop_lag_seconds_bucket[$__rate_interval])))", "{{instance}}"),),
                "s",
            ),
            Panel("Memory", (('process_resident_memory_bytes{job="headrace"}', "{{instance}}"),), "bytes"),
            Panel(
                "CPU", (('rate(process_cpu_seconds_total{job="headrace"}[$__rate_interval])', "{{instance}}"),),
                "percentunit",
            ),
            Panel(
                "Free disk space",
                (("headrace_log_directory_free_bytes / headrace_log_directory_total_bytes",
                  "{{instance}} {{directory}}"),),
                "percentunit",
            ),
            Panel("Connections", (("sum by (instance) (kafka_server_socketservermetrics_connection_count)",
                                   "{{instance}}"),)),
            Panel(
                "ISR changes",
                (("sum by (instance) (increase(kafka_server_replicamanager_isrshrinks_total[$__rate_interval]))",
                  "{{instance}} shrinks"),
                 ("sum by (instance) (increase(kafka_server_replicamanager_isrexpands_total[$__rate_interval]))",
                  "{{instance}} expands")),
            ),
            Panel(
                "Certificates expire in", (("headrace_certificate_expiry_seconds", "{{instance}} {{listener}}"),), "s"
            ),
        ),
    ),
    Dashboard(
        "headrace-topics", "Headrace: topics and groups",
        (
            Panel("Lag in records", (("sum by (group) (headrace_group_lag_records)", "{{group}}"),), width=24),
            Panel("Age of the oldest unread record", (("max by (group) (headrace_group_lag_seconds)", "{{group}}"),),
                  "s", width=24),
            Panel("Largest lag now", (("topk(20, sum by (group, topic) (headrace_group_lag_records))",
                                       "{{group}} {{topic}}"),), kind="bargauge"),
            Panel("Records written by topic", ((f"topk(20, {_traffic('messagesin')})", "{{topic}}"),), "cps"),
            Panel("Bytes written by topic", ((f"topk(20, {_traffic('bytesin')})", "{{topic}}"),), "Bps"),
            Panel("Bytes read by topic", ((f"topk(20, {_traffic('bytesout')})", "{{topic}}"),), "Bps"),
            Panel("Size by topic", (("topk(20, sum by (topic) (kafka_log_log_size))", "{{topic}}"),), "bytes"),
            Panel("Rejected writes", ((_traffic("failedproducerequests"), "{{topic}}"),), "reqps"),
        ),
    ),
    Dashboard(
        "headrace-pipelines", "Headrace: Spark flows",
        (
            _stat("Running", "sum(headrace_pipeline_running)"),
            _stat("Failing", "sum(headrace_pipeline_failing)", bad_above=0),
            _stat("Largest lag", "max(headrace_pipeline_lag_records)"),
            _stat("Longest behind", "max(headrace_pipeline_lag_seconds)", "s", 600),
            _stat("Dead letters", "sum(headrace_pipeline_dead_letters_total)", bad_above=0),
            _stat("Oldest report", "max(headrace_pipeline_report_age_seconds)", "s", 30),
            Panel("Lag in records", (("headrace_pipeline_lag_records", _FLOW),)),
            Panel("Behind", (("headrace_pipeline_lag_seconds", _FLOW),), "s"),
            Panel("Rows in", (("headrace_pipeline_input_rows_per_second", _FLOW),), "cps"),
            Panel("Rows processed", (("headrace_pipeline_processed_rows_per_second", _FLOW),), "cps"),
            Panel("Duration of a batch", (("headrace_pipeline_batch_seconds", _FLOW),), "s"),
            Panel("Rows of state", (("headrace_pipeline_state_rows", _FLOW),)),
            Panel("Restarts", (("increase(headrace_pipeline_restarts_total[$__rate_interval])", _FLOW),)),
        ),
    ),
)  # fmt: skip


def grafana_json(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it."""
    source: JsonValue = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    document: Mapping[str, JsonValue] = {
        "uid": dashboard.uid, "title": dashboard.title, "tags": ["headrace"], "schemaVersion": _SCHEMA_VERSION,
        "editable": True, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "templating": {"list": [source]}, "panels": _placed(dashboard.panels),
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


def _placed(panels: tuple[Panel, ...]) -> list[JsonValue]:
    """From left to right, in rows as high as their first panel."""
    found: list[JsonValue] = []
    x = y = row = 0
    for number, panel in enumerate(panels, start=1):
        height = _STAT_HEIGHT if panel.kind == "stat" else _CHART_HEIGHT
        if x + panel.width > _COLUMNS:
            x, y, row = 0, y + row, 0
        row = max(row, height)
        found.append(_panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": height}))
        x += panel.width
    return found


def _panel(number: int, panel: Panel, place: dict[str, JsonValue]) -> JsonValue:
    steps: list[JsonValue] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        # A threshold is reached at its value; the smallest step above the limit.
        steps.append({"color": "red", "value": panel.bad_above + 0.0001})
    defaults: JsonValue = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    targets: list[JsonValue] = [
        {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend or "__auto", "datasource": _SOURCE}
        for at, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "datasource": _SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []}, "targets": targets,
    }  # fmt: skip
