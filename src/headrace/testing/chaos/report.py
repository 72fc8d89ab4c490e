"""The result of a run, as text. `picture` draws it as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from headrace.kernel.plurals import counted
from headrace.testing.chaos.fault_steps import Step
from headrace.testing.chaos.history import Anomalies, Value
from headrace.testing.chaos.plan import Plan

# The checker's names in the words of an application.
WORDS: Final = {
    "acked_lost": "lost: acknowledged to the writer, never in the output",
    "acked_elsewhere": "moved: acknowledged at one offset, found at another",
    "doubled": "doubled: in the output more than once",
    "disordered": "disordered: records of a key in another order than they were written",
    "read_then_gone": "gone: read, and not in the log at the end",
    "undelivered": "unread: the group did not commit past them",
    "torn_transactions": "torn: a part of a transaction is visible",
}
_SHOWN: Final = 5


@dataclass(slots=True)
class Report:
    """The plan does not allow `anomalies`; `allowed` counts all that were found."""

    plan: Plan
    anomalies: Anomalies
    acked_at: Mapping[Value, float]
    seen_at: Mapping[Value, float]
    steps: Sequence[Step]
    allowed: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[str] = ()
    others: int = 0
    crashes: int = 0
    starts: int = 1
    application_output: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.anomalies and not self.refused and bool(self.acked_at)

    @property
    def counts(self) -> dict[str, int]:
        """Anomalies by name, without the ones that the plan allows."""
        return {name: count for name, count in self.anomalies.counts.items() if count}

    def latency_s(self, share: float) -> float | None:
        """The time from the acknowledgement of the input to the output, of this share of the records."""
        waits = sorted(self.seen_at[one] - at for one, at in self.acked_at.items() if one in self.seen_at)
        return None if not waits else max(0.0, waits[min(len(waits) - 1, int(len(waits) * share))])

    def longest_silence_s(self) -> float:
        """The longest time without a record of the application, while records were written."""
        times = sorted(self.seen_at.values())
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def write_html(self, file: Path | str) -> None:
        """The report with a picture."""
        from headrace.testing.chaos.picture import page

        Path(file).write_text(page(self))

    def facts(self) -> dict[str, object]:
        """The result as data."""
        return {
            "clean": self.is_clean,
            "written": len(self.acked_at),
            "seen": len(self.seen_at),
            "faults": len(self.steps),
            "starts": self.starts,
            "crashes": self.crashes,
            "longest_silence_s": round(self.longest_silence_s(), 3),
            "anomalies": self.counts,
            "found": dict(self.allowed),
        }

    def __str__(self) -> str:
        verdict = "no anomalies" if self.is_clean else "the application broke its guarantee"
        lines = [
            f"{verdict} ({self.plan.guarantee}): {counted(len(self.acked_at), 'record')} written, "
            f"{len(self.seen_at)} seen, {counted(len(self.steps), 'fault')}, seed {self.plan.seed}"
        ]
        for name, count in self.counts.items():
            lines.append(f"  {count} {WORDS[name]}")
            lines += [f"      {_shown(one)}" for one in getattr(self.anomalies, name)[:_SHOWN]]
        lines += [
            f"  {count} {WORDS[name]} (allowed)" for name, count in self.allowed.items() if name not in self.counts
        ]
        lines += [f"  the cluster refused a record: {one}" for one in list(dict.fromkeys(self.refused))[:_SHOWN]]
        if not self.acked_at:
            lines.append("  no record was acknowledged: is the cluster reachable?")
        if self.crashes:
            lines.append(f"  the application ended by itself {counted(self.crashes, 'time')}; its last lines:")
            lines += [f"      {line}" for line in self.application_output.strip().splitlines()[-_SHOWN:]]
        lines += [f"  {one.began_s:6.2f} s  {one.label}: {one.note}" for one in self.steps if "not work" in one.note]
        return "\n".join(lines)


def _shown(anomaly: object) -> str:
    """(value, place) of the checker as text."""
    if isinstance(anomaly, tuple) and len(anomaly) >= 2:
        parts = [f"{one.producer} number {one.number}" if isinstance(one, Value) else str(one) for one in anomaly]
        return ", ".join(part for part in parts if "offset=-1" not in part)
    return str(anomaly)
