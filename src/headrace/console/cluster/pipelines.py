"""Spark flows, as any process publishes them to the topic `__pipelines`: the last report of each flow, and the reports
before it that the topic still holds.

The reports are JSON of `pipelines.flows.progress`. A field that a report lacks, because another version wrote it, is
unknown. Blocking code; pages run it in threads.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject

TOPIC: Final = "__pipelines"
_SETTINGS: Final = FetchSettings(stall_timeout_s=5, max_wait_ms=100)
# One report each some seconds: an hour.
_KEPT: Final = 1000
# A flow that says it runs and has not reported for this long has lost its process.
SILENT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Report:
    at_ms: int
    state: str
    batch_id: int
    input_rows: int
    input_rate: float
    processed_rate: float
    lag: int | None
    batch_ms: int
    state_rows: int
    state_bytes: int
    watermark: str | None
    error: str | None
    restarts: int
    host: str
    pid: int
    offsets: dict[str, dict[str, int]]
    lag_seconds: float | None
    """For how long the flow has been behind; None if the report does not say it."""
    read_rows: int
    written_rows: int
    dead_letters: int
    late_rows: int

    @classmethod
    def of(cls, found: JsonObject) -> Report:
        lag, seconds = found.get("lag"), found.get("lag_seconds")
        return cls(
            int(found.get("at_ms") or 0), str(found.get("state", "unknown")), int(found.get("batch_id", -1)),
            int(found.get("input_rows") or 0), float(found.get("input_rows_per_second") or 0),
            float(found.get("processed_rows_per_second") or 0), None if lag is None else int(lag),
            int(found.get("batch_ms") or 0), int(found.get("state_rows") or 0), int(found.get("state_bytes") or 0),
            found.get("watermark"), found.get("last_error"), int(found.get("restarts") or 0),
            str(found.get("host", "")), int(found.get("pid") or 0), found.get("end_offsets") or {},
            None if seconds is None else float(seconds), int(found.get("read_rows") or 0),
            int(found.get("written_rows") or 0), int(found.get("dead_letters") or 0), int(found.get("late_rows") or 0),
        )  # fmt: skip


class Flow:
    """One flow of one pipeline with its reports, the newest last."""

    def __init__(self, name: str, pipeline: str, flow: str) -> None:
        self.name = name
        self.pipeline = pipeline
        self.flow = flow
        self.reports: deque[Report] = deque(maxlen=_KEPT)

    @property
    def last(self) -> Report:
        return self.reports[-1]

    def state(self, now_ms: int) -> str:
        """The reported state; `silent` if a running flow has stopped reporting."""
        reported = self.last.state
        return "silent" if reported == "running" and now_ms - self.last.at_ms > SILENT_MS else reported

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics it reads."""
        return tuple(sorted(self.last.offsets))


def read_flows(client: BlockingClient) -> dict[str, Flow]:
    """All flows that the topic knows; empty if no process has published."""
    if TOPIC not in client.topics([TOPIC]):
        return {}
    start = client.list_offsets({(TOPIC, 0): EARLIEST})[TOPIC, 0]
    end = client.list_offsets({(TOPIC, 0): LATEST})[TOPIC, 0]
    flows: dict[str, Flow] = {}
    for record in fetched_records(client, (TOPIC, 0), start, end, _SETTINGS):
        name = (record.key or b"").decode(errors="replace")
        if record.value is None:
            flows.pop(name, None)
            continue
        try:
            found = json.loads(record.value)
            report = Report.of(found)
        except (ValueError, TypeError, AttributeError):
            continue  # other records in the topic are not reports
        if name not in flows:
            flows[name] = Flow(name, str(found.get("pipeline", name)), str(found.get("flow", "")))
        flows[name].reports.append(report)
    return flows
