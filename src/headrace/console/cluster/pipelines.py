"""Spark flows, as any process publishes them to the topic `__pipelines`: the last report of each flow, and the reports
before it that the topic still holds.

The reports are JSON of `pipelines.flows.progress`. A field that a report lacks, because another version wrote it, is
unknown. Blocking code; pages run it in threads.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject, JsonValue

TOPIC: Final = "__pipelines"
_PLACE: Final = (TOPIC, 0)
ALIVE: Final = ("running", "restarting")
_SETTINGS: Final = FetchSettings(stall_timeout_s=5, max_wait_ms=100)
# One report each some seconds: an hour.
_KEPT: Final = 1000
# A flow that says it runs and has not reported for this long has lost its process.
SILENT_MS: Final = 60_000


def _number(value: JsonValue) -> int | None:
    return int(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Place:
    """What a flow reads or writes that is no topic, or the topic it writes."""

    kind: str
    name: str

    @classmethod
    def of(cls, found: JsonValue) -> Place | None:
        if not isinstance(found, dict) or not found.get("name"):
            return None
        return cls(str(found.get("kind") or ""), str(found["name"]))


@dataclass(frozen=True, slots=True)
class Command:
    """The last command that a person gave, and what became of it."""

    id: str
    action: str
    by: str
    state: str
    message: str
    at_ms: int

    @classmethod
    def of(cls, found: JsonObject) -> Command:
        texts = [str(found.get(name) or "") for name in ("id", "action", "by", "state", "message")]
        name, action, by, state, message = texts
        return cls(name, action, by, state, message, int(found.get("at_ms") or 0))


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
    heartbeat_ms: int | None
    run: str
    """The id of the run if it takes commands."""
    command: Command | None
    target: Place | None
    origins: tuple[Place, ...]
    trigger_ms: int | None
    durations_ms: Mapping[str, int]
    is_stateful: bool
    watermark_delay_ms: int | None
    plan: str

    @classmethod
    def of(cls, found: JsonObject) -> Report:
        """Raises ValueError, TypeError or AttributeError for other documents."""
        lag, seconds = found.get("lag"), found.get("lag_seconds")
        durations = found.get("durations_ms") or {}
        command = found.get("command")
        return cls(
            int(found.get("at_ms") or 0), str(found.get("state", "unknown")), int(found.get("batch_id", -1)),
            int(found.get("input_rows") or 0), float(found.get("input_rows_per_second") or 0),
            float(found.get("processed_rows_per_second") or 0), None if lag is None else int(lag),
            int(found.get("batch_ms") or 0), int(found.get("state_rows") or 0), int(found.get("state_bytes") or 0),
            found.get("watermark"), found.get("last_error"), int(found.get("restarts") or 0),
            str(found.get("host", "")), int(found.get("pid") or 0), found.get("end_offsets") or {},
            None if seconds is None else float(seconds), int(found.get("read_rows") or 0),
            int(found.get("written_rows") or 0), int(found.get("dead_letters") or 0), int(found.get("late_rows") or 0),
            _number(found.get("heartbeat_ms")), str(found.get("run") or ""),
            None if not command else Command.of(command), Place.of(found.get("target")),
            tuple(place for one in found.get("origins") or () if (place := Place.of(one)) is not None),
            _number(found.get("trigger_ms")), {str(name): int(value) for name, value in durations.items()},
            bool(found.get("is_stateful")), _number(found.get("watermark_delay_ms")), str(found.get("plan") or ""),
        )  # fmt: skip


class Flow:
    """One flow of one pipeline with its reports, the newest last."""

    def __init__(self, name: str, pipeline: str, flow: str, reports: Sequence[Report], plan: str = "") -> None:
        self.name = name
        self.pipeline = pipeline
        self.flow = flow
        self.reports = reports
        self.plan = plan

    @property
    def last(self) -> Report:
        return self.reports[-1]

    def state(self, now_ms: int) -> str:
        """The reported state; `silent` if a flow that should report has stopped doing it."""
        reported = self.last.state
        return "silent" if reported in ALIVE and now_ms - self.last.at_ms > SILENT_MS else reported

    def takes_commands(self, now_ms: int) -> bool:
        """Whether its run reads commands and has reported lately."""
        beat_ms = min(self.last.heartbeat_ms or SILENT_MS, SILENT_MS)
        return bool(self.last.run) and now_ms - self.last.at_ms <= 3 * beat_ms

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics it reads."""
        return tuple(sorted(self.last.offsets))


class FlowReports:
    """The reports of a cluster. Each reading continues where the last one ended, because the topic holds a record for
    each batch of each flow. Threads of pages share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: int | None = None
        self._names: dict[str, tuple[str, str]] = {}
        self._reports: dict[str, deque[Report]] = {}
        self._plans: dict[str, str] = {}

    def read(self, client: BlockingClient) -> dict[str, Flow]:
        """All flows that the topic knows; empty if no process has published. Raises Fault."""
        with self._lock:
            if TOPIC not in client.topics([TOPIC]):
                self._forget()
                return {}
            first = client.list_offsets({_PLACE: EARLIEST})[_PLACE]
            end = client.list_offsets({_PLACE: LATEST})[_PLACE]
            if self._next is not None and end < self._next:
                self._forget()  # the topic was deleted and created again
            start = max(first, self._next or 0)
            for record in fetched_records(client, _PLACE, start, end, _SETTINGS):
                self._take((record.key or b"").decode(errors="replace"), record.value)
            self._next = end
            return {
                name: Flow(name, *self._names[name], tuple(reports), self._plans.get(name, ""))
                for name, reports in self._reports.items()
            }

    def _take(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._reports.pop(name, None)
            self._plans.pop(name, None)
            return
        try:
            found = json.loads(value)
            report = Report.of(found)
        except (ValueError, TypeError, AttributeError):
            return  # other records in the topic are not reports
        self._names[name] = str(found.get("pipeline", name)), str(found.get("flow", ""))
        if report.plan:
            self._plans[name] = report.plan
        self._reports.setdefault(name, deque(maxlen=_KEPT)).append(report)

    def _forget(self) -> None:
        self._next, self._names, self._reports, self._plans = None, {}, {}, {}
