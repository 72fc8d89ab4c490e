"""Spark flows: the list, and one flow with its history on one time axis."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence

from headrace.console.cluster.facts import ClusterFacts
from headrace.console.cluster.pipelines import Flow, Report
from headrace.console.core.masking import masks_of
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass

_HIDDEN = "This console hides or masks values, which the text of the error may quote. The log of the process has it."
_PARTS = 4
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
    trigger_ms: int | None
    takes_commands: bool

    @property
    def load_percent(self) -> int | None:
        """The time of a batch as a part of its trigger interval."""
        return None if not self.trigger_ms or self.batch_id < 0 else 100 * self.batch_ms // self.trigger_ms


async def flows_of(visit: Visit) -> dict[str, Flow]:
    def read() -> dict[str, Flow]:
        with visit.cluster.blocking() as client:
            return visit.cluster.flow_reports.read(client)

    return await asyncio.to_thread(read)


def shown_error(visit: Visit, flow: Flow) -> str:
    """What the flow failed with. An error of Spark may quote a value. So a console that hides values of a topic that
    the flow reads does not show it."""
    error = (flow.last.error or "").strip()
    hides = visit.settings.hides_values or any(masks_of(visit.settings.masks, topic) for topic in flow.topics)
    # A flow that failed before its first batch has not said what it reads.
    hides = hides or (bool(visit.settings.masks) and not flow.topics)
    return _HIDDEN if error and hides else error


def flow_row(visit: Visit, flow: Flow, now_ms: int) -> FlowRow:
    last = flow.last
    # Before the first batch has ended there are no numbers.
    lag = last.lag if last.batch_id >= 0 else None
    behind: float | None = None
    if lag is not None and last.lag_seconds is not None:
        behind = last.lag_seconds
    elif lag is not None:
        behind = 0.0 if not lag else lag / last.processed_rate if last.processed_rate > 0 else None
    error = shown_error(visit, flow).splitlines()
    return FlowRow(
        flow.name, flow.pipeline, flow.flow, flow.state(now_ms), error[0] if error else "", lag, behind,
        last.input_rate, last.processed_rate, last.batch_ms, last.batch_id, last.restarts, last.at_ms, last.host,
        last.trigger_ms, flow.takes_commands(now_ms),
    )  # fmt: skip


async def pipelines(visit: Visit) -> View:
    now_ms = int(time.time() * 1000)
    rows = [flow_row(visit, flow, now_ms) for flow in (await flows_of(visit)).values()]
    rows.sort(key=lambda row: (_ORDER.index(row.state) if row.state in _ORDER else len(_ORDER), row.name))
    return View("pipelines.html", "Pipelines", {"flows": rows}, section="pipelines")


async def flow_named(visit: Visit) -> Flow:
    name = visit.query.get("name", "")
    flow = (await flows_of(visit)).get(name)
    if flow is None:
        raise Rejected(404, f"no flow {name!r} has reported to this cluster")
    return flow


async def pipeline(visit: Visit) -> View:
    flow = await flow_named(visit)
    facts = await visit.cluster.facts()
    data = {
        "row": flow_row(visit, flow, int(time.time() * 1000)),
        "last": dataclasses.replace(flow.last, error=shown_error(visit, flow)),
        "group": flow.name if flow.name in facts.groups else None,
        "offsets": [
            (topic, int(partition), offset)
            for topic, parts in sorted(flow.last.offsets.items())
            for partition, offset in sorted(parts.items(), key=lambda pair: int(pair[0]))
        ],
        "dead_letters": dead_letters(flow, facts),
        "target_is_topic": flow.last.target is not None and flow.last.target.name in facts.topics,
        "charts": charts_of(flow),
        "durations": sorted(flow.last.durations_ms.items(), key=lambda pair: -pair[1]),
        "plan": flow.plan,
        "commands": commands_for(flow, visit),
    }
    return View("pipeline.html", flow.name, data, section="pipelines")


def commands_for(flow: Flow, visit: Visit) -> list[tuple[str, str]]:
    """(action, label) of the commands that fit the state of the flow."""
    if visit.settings.read_only or not flow.takes_commands(int(time.time() * 1000)):
        return []
    if flow.last.state in ("running", "restarting"):
        found = [("stop", "Stop")]
    else:
        found = [("start", "Start")]
        if flow.last.state == "stopped" and flow.topics:
            found.append(("reset", "Reset offsets"))
    if flow.topics and not flow.last.is_stateful:
        found.append(("replay", "Replay"))
    return found


def charts_of(flow: Flow) -> list[dict[str, object]]:
    """All over the same times. A chart without a value is left out."""
    reports = [report for report in flow.reports if report.batch_id >= 0]
    times = [report.at_ms / 1000 for report in reports]
    columns: list[tuple[str, str, Sequence[float | None]]] = [
        ("Rows read per second", "rows/s", [report.input_rate for report in reports]),
        ("Rows processed per second", "rows/s", [report.processed_rate for report in reports]),
        ("Duration of a batch", "ms", [report.batch_ms for report in reports]),
        ("Lag", "records", [report.lag or 0 for report in reports]),
        ("Watermark behind the newest event", "ms", [report.watermark_delay_ms for report in reports]),
        ("Rows of state", "rows", [report.state_rows for report in reports]),
        ("Size of state", "bytes", [report.state_bytes for report in reports]),
        ("Rows dropped because they were late", "rows", [report.late_rows for report in reports]),
        ("Dead letters", "rows", [report.dead_letters for report in reports]),
    ]
    found: list[dict[str, object]] = []
    if split := durations_split(reports):
        found.append({"label": "Parts of a batch", "unit": "ms", "data": {"times": times, "series": split}})
    always = ("Rows read per second", "Rows processed per second", "Duration of a batch", "Lag")
    plain: list[dict[str, object]] = [
        {"label": label, "unit": unit, "data": {"times": times, "values": values}}
        for label, unit, values in columns
        if label in always or any(values)
    ]
    return [*plain[:3], *found, *plain[3:]]


def durations_split(reports: Sequence[Report]) -> list[dict[str, object]]:
    """The largest parts of the batches as lines, the others as one."""
    sums: dict[str, int] = {}
    for report in reports:
        for name, ms in report.durations_ms.items():
            if name != "triggerExecution":
                sums[name] = sums.get(name, 0) + ms
    largest = sorted(sums, key=lambda name: -sums[name])[:_PARTS]
    lines: list[dict[str, object]] = [
        {"label": name, "values": [report.durations_ms.get(name, 0) for report in reports]} for name in largest
    ]
    if len(sums) > len(largest):
        others = [
            sum(ms for name, ms in report.durations_ms.items() if name in sums and name not in largest)
            for report in reports
        ]
        lines.append({"label": "others", "values": others})
    return lines


def dead_letters(flow: Flow, facts: ClusterFacts) -> list[str]:
    """Topics that hold the rows that this flow could not decode."""
    return [name for topic in flow.topics if (name := f"{topic}.dlq") in facts.topics]
