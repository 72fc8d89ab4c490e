"""One flow of a running pipeline: its query, its progress, and when it starts again after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import Sink

from headrace.pipelines.flows.progress import FlowProgress, RuleTotal

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from headrace.pipelines.flows.graph import ResolvedFlow

FIRST_PAUSE_S: Final = 1.0
_PLAN_EVERY_S: Final = 60.0


@dataclass
class RunningFlow:
    resolved: ResolvedFlow
    progress: FlowProgress
    query: StreamingQuery | None = None
    started_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    start_again_at: float | None = None
    seen_batch: int = -1
    finished_batches: int = 0
    is_realtime: bool = False
    # When a batch last read everything that there was.
    caught_up_at: float = 0.0
    # A person stopped the flow: the run goes on without it.
    is_paused: bool = False
    # Number of the running batch and the time until which a stop waits for its end.
    pause_after: tuple[int, float] | None = None
    plan: str = ""
    plan_reported_at: float | None = None

    @property
    def name(self) -> str:
        return str(self.resolved.flow.name)

    @property
    def sink(self) -> str:
        """The target of the flow, as a part of its shape."""
        target = self.resolved.target
        if isinstance(target, Sink):
            return f"{target.format}:{target.options.get('topic') or target.options.get('path') or target.name}"
        return str(target.name)

    @property
    def has_ended(self) -> bool:
        return self.query is None and self.start_again_at is None and not self.is_paused

    @property
    def is_starting(self) -> bool:
        """Whether Spark still starts the Python processes of its sources."""
        query = self.query
        return query is not None and query.isActive and str(query.status["message"]).startswith("Initializing")

    def note_lag(self, now: float) -> None:
        if not self.progress.lag and not self.progress.lag_bytes:
            self.caught_up_at = now
        self.progress.lag_seconds = round(now - self.caught_up_at, 1)

    def attach_plan(self, now: float) -> None:
        """Puts the plan into the report that follows, if readers that began late may lack it."""
        due = self.plan_reported_at is None or now - self.plan_reported_at >= _PLAN_EVERY_S
        self.progress.plan = self.plan or None if due else None
        if due:
            self.plan_reported_at = now

    def totals(self) -> dict[str, object]:
        """Rows since the start: read, written to the target, dropped, written as dead letters."""
        return {
            "flow": self.name,
            "read": self.progress.read_rows,
            "written": 0 if self.resolved.writes_dead_letters else self.progress.written_rows,
            "dropped": self.progress.dropped_rows,
            "dead letters": self.progress.dead_letters,
        }

    def rules(self) -> dict[str, RuleTotal]:
        """Counts of the expectations. A flow of dead letters has none."""
        return self.progress.rules


def finished_batch(query: StreamingQuery) -> int:
    """Number of the last batch that the query finished."""
    event = query.lastProgress
    return -1 if event is None else int(event.batchId)
