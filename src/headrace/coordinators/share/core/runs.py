"""Runs of offsets with the same state: the memory of a share partition grows with its number of runs, not of
records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

from headrace.kernel.dataclass import dataclass


class RecordState(IntEnum):
    """The numbers are those of Kafka's records and requests."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is not durable yet, and the former state: its member holds the records again if it fails."""

    number: int
    member: str | None
    locked_until_ms: int


@dataclass(slots=True)
class Run:
    """Offsets first…last, both included."""

    first: int
    last: int
    state: RecordState
    deliveries: int = 0
    member: str | None = None
    locked_until_ms: int = -1
    change: Change | None = None

    @property
    def kind(self) -> tuple[RecordState, int, str | None, int, Change | None]:
        return self.state, self.deliveries, self.member, self.locked_until_ms, self.change

    @property
    def is_free(self) -> bool:
        """Whether a member may acquire it now. A release takes effect only when it is durable."""
        return self.state is RecordState.AVAILABLE and self.change is None

    def __len__(self) -> int:
        return self.last - self.first + 1


class Runs:
    """Runs without overlap, in order; there may be holes between them."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def end(self) -> int | None:
        """The last offset, or None."""
        return self._runs[-1].last if self._runs else None

    def covering(self, first: int, last: int) -> list[Run]:
        """The runs inside first…last, cut at both ends so that they can be changed."""
        self._cut(first)
        self._cut(last + 1)
        return [run for run in self._runs[self._at(first) :] if run.last <= last]

    def put(self, fresh: Run) -> None:
        """Replaces the state of these offsets."""
        inside = self.covering(fresh.first, fresh.last)
        at = self._at(fresh.first)
        self._runs[at : at + len(inside)] = [fresh]

    def drop_before(self, offset: int) -> None:
        self._cut(offset)
        self._runs = self._runs[self._at(offset) :]

    def join(self) -> None:
        """Joins neighbours of the same state."""
        joined: list[Run] = []
        for run in self._runs:
            if joined and joined[-1].last + 1 == run.first and joined[-1].kind == run.kind:
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs = joined

    def _at(self, offset: int) -> int:
        """The index of the first run that ends at or after `offset`."""
        at = bisect_right(self._runs, offset, key=lambda run: run.first)
        return at - 1 if at and self._runs[at - 1].last >= offset else at

    def _cut(self, offset: int) -> None:
        at = self._at(offset)
        if at < len(self._runs) and self._runs[at].first < offset <= self._runs[at].last:
            run = self._runs[at]
            self._runs[at : at + 1] = [replace(run, last=offset - 1), replace(run, first=offset)]
