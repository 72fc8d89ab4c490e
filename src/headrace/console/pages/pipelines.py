"""Spark flows: the list, and one flow with its history on one time axis."""

from __future__ import annotations

import asyncio
import time

from headrace.console.cluster.facts import ClusterFacts
from headrace.console.cluster.pipelines import Flow, read_flows
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass

_ORDER = ("failed", "silent", "restarting", "running", "stopped")


@dataclass(frozen=True, slots=True)
class FlowRow:
    name: str
    pipeline: str
    flow: str
    state: str
    error: str
    lag: int | None
    behind_s: float | None
    """For how long the flow has been behind; from older drivers, seconds until the lag is read at the present rate."""
    input_rate: float
    processed_rate: float
    batch_ms: int
    batch_id: int
    restarts: int
    at_ms: int
    host: str


async def flows_of(visit: Visit) -> dict[str, Flow]:
    def read() -> dict[str, Flow]:
        with visit.cluster.blocking() as client:
            return read_flows(client)

    return await asyncio.to_thread(read)


def flow_row(flow: Flow, now_ms: int) -> FlowRow:
    last = flow.last
    # Before the first batch has ended there are no numbers.
    lag = last.lag if last.batch_id >= 0 else None
    behind: float | None = None
    if lag is not None and last.lag_seconds is not None:
        behind = last.lag_seconds
    elif lag is not None:
        behind = 0.0 if not lag else lag / last.processed_rate if last.processed_rate > 0 else None
    error = (last.error or "").strip().splitlines()
    return FlowRow(
        flow.name, flow.pipeline, flow.flow, flow.state(now_ms), error[0] if error else "", lag, behind,
        last.input_rate, last.processed_rate, last.batch_ms, last.batch_id, last.restarts, last.at_ms, last.host,
    )  # fmt: skip


async def pipelines(visit: Visit) -> View:
    now_ms = int(time.time() * 1000)
    rows = [flow_row(flow, now_ms) for flow in (await flows_of(visit)).values()]
    rows.sort(key=lambda row: (_ORDER.index(row.state) if row.state in _ORDER else len(_ORDER), row.name))
    return View("pipelines.html", "Pipelines", {"flows": rows}, section="pipelines")


async def pipeline(visit: Visit) -> View:
    name = visit.query.get("name", "")
    flow = (await flows_of(visit)).get(name)
    if flow is None:
        raise Rejected(404, f"no flow {name!r} has reported to this cluster")
    facts = await visit.cluster.facts()
    reports = [report for report in flow.reports if report.batch_id >= 0]
    times = [report.at_ms / 1000 for report in reports]
    charts = {
        "Rows read per second": ("rows/s", [report.input_rate for report in reports]),
        "Rows processed per second": ("rows/s", [report.processed_rate for report in reports]),
        "Duration of a batch": ("ms", [report.batch_ms for report in reports]),
        "Lag": ("records", [report.lag or 0 for report in reports]),
        "Rows of state": ("rows", [report.state_rows for report in reports]),
        "Size of state": ("bytes", [report.state_bytes for report in reports]),
        "Rows dropped because they were late": ("rows", [report.late_rows for report in reports]),
        "Dead letters": ("rows", [report.dead_letters for report in reports]),
    }
    data = {
        "row": flow_row(flow, int(time.time() * 1000)),
        "last": flow.last,
        "group": flow.name if flow.name in facts.groups else None,
        "offsets": [
            (topic, int(partition), offset)
            for topic, parts in sorted(flow.last.offsets.items())
            for partition, offset in sorted(parts.items(), key=lambda pair: int(pair[0]))
        ],
        "dead_letters": dead_letters(flow, facts),
        "charts": [
            {"label": label, "unit": unit, "data": {"times": times, "values": values}}
            for label, (unit, values) in charts.items()
        ],
    }
    return View("pipeline.html", flow.name, data, section="pipelines")


def dead_letters(flow: Flow, facts: ClusterFacts) -> list[str]:
    """Topics that hold the rows that this flow could not decode."""
    return [name for topic in flow.topics if (name := f"{topic}.dlq") in facts.topics]
