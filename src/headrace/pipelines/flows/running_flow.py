"""One flow of a running pipeline: its query, its progress, and when it starts again after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.pipelines.flows.progress import FlowProgress, RuleTotal

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from headrace.pipelines.flows.graph import ResolvedFlow

FIRST_PAUSE_S: Final = 1.0


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

    @property
    def name(self) -> str:
        return str(self.resolved.flow.name)

    @property
    def has_ended(self) -> bool:
        return self.query is None and self.start_again_at is None

    def note_lag(self, now: float) -> None:
        if not self.progress.lag and not self.progress.lag_bytes:
            self.caught_up_at = now
        self.progress.lag_seconds = round(now - self.caught_up_at, 1)

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
