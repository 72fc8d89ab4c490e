"""A finding of the doctor: the observation and the remedy.

One cause is one finding, even if it affects many partitions. `details` lists what it sums up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.kernel.plurals import counted


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    found: str
    remedy: str | None = None
    details: tuple[str, ...] = ()
    # (kind, name) of the group, topic, transaction or broker that it is about; of several, one of them.
    about: tuple[str, str] | None = None

    def document(self) -> dict[str, object]:
        return {
            "check": self.check, "state": self.state.value, "found": self.found, "do": self.remedy,
            "details": list(self.details),
        }  # fmt: skip


def well(check: str, found: str) -> list[Finding]:
    return [Finding(check, State.OK, found)]


def together(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def since(time_ms: int, now_ms: int) -> str:
    """`03:11:05 (2 minutes ago)`: local time and age."""
    clock = time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))
    seconds = max(0, now_ms - time_ms) // 1000
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= size or size == 1:
            count = seconds // size
            day = "" if seconds < 86400 / 2 else time.strftime("%Y-%m-%d ", time.localtime(time_ms / 1000))
            return f"{day}{clock} ({counted(count, unit)} ago)"
    raise AssertionError("the last unit takes everything")
