"""End offsets of topics and lag of groups over time, sampled in the background while pages are open.

A round costs processor time that grows with the cluster. The sampler therefore rests a hundred times as long, and at
least `INTERVAL_S`: it uses about one percent of a core at most. It stops a minute after the last page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.kernel.ids import TopicPartition

INTERVAL_S: Final = 5.0
REST_FACTOR: Final = 100
IDLE_S: Final = 60.0
# Three hours at the shortest interval, in some hundred bytes a topic.
KEPT: Final = 2160
_RATE_S: Final = 30.0
_READ_ROUNDS: Final = 6


class Series:
    """(time, value) pairs; the oldest leave."""

    __slots__ = ("points",)

    def __init__(self) -> None:
        self.points: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def add(self, now_s: float, value: int) -> None:
        self.points.append((now_s, value))

    def rate(self) -> float | None:
        """Change a second over the last half minute; None before there are two samples."""
        if len(self.points) < 2:
            return None
        last_s, last = self.points[-1]
        for at_s, value in reversed(self.points):
            first_s, first = at_s, value
            if last_s - at_s >= _RATE_S:
                break
        return max(0.0, (last - first) / (last_s - first_s)) if last_s > first_s else None

    def columns(self) -> tuple[list[float], list[int]]:
        return [round(at, 1) for at, _ in self.points], [value for _, value in self.points]

    def rates(self) -> tuple[list[float], list[float]]:
        """The change a second between neighbours, for a chart."""
        times, found = [], []
        for (before_s, before), (at_s, value) in zip(self.points, list(self.points)[1:], strict=False):
            if at_s > before_s:
                times.append(round(at_s, 1))
                found.append(round(max(0.0, (value - before) / (at_s - before_s)), 2))
        return times, found


class Samples:
    """Series of one cluster. Topics and groups that are gone leave with the next round."""

    def __init__(self) -> None:
        self.written: dict[str, Series] = {}
        self.lag: dict[str, Series] = {}
        self.total = Series()
        self.total_lag = Series()
        # (group, topic) → committed offsets in all; of the last rounds only, because there may be many.
        self._reads: deque[tuple[float, Mapping[tuple[str, str], int]]] = deque(maxlen=_READ_ROUNDS)

    def add_ends(self, now_s: float, ends: Mapping[TopicPartition, int]) -> None:
        sums: dict[str, int] = {}
        for partition, end in ends.items():
            sums[partition.topic] = sums.get(partition.topic, 0) + end
        self.written = {topic: self.written.get(topic) or Series() for topic in sums}
        for topic, value in sums.items():
            self.written[topic].add(now_s, value)
        self.total.add(now_s, sum(value for topic, value in sums.items() if not topic.startswith("_")))

    def add_lags(self, now_s: float, lags: Mapping[str, int | None]) -> None:
        known = {group: lag for group, lag in lags.items() if lag is not None}
        self.lag = {group: self.lag.get(group) or Series() for group in known}
        for group, lag in known.items():
            self.lag[group].add(now_s, lag)
        self.total_lag.add(now_s, sum(known.values()))

    def add_reads(self, now_s: float, committed: Mapping[tuple[str, str], int]) -> None:
        self._reads.append((now_s, committed))

    def read_rate(self, group: str, topic: str) -> float | None:
        """Records a second that the group has committed over the last rounds."""
        points = [(at_s, sums[group, topic]) for at_s, sums in self._reads if (group, topic) in sums]
        if len(points) < 2:
            return None
        (first_s, first), (last_s, last) = points[0], points[-1]
        return max(0.0, (last - first) / (last_s - first_s)) if last_s > first_s else None

    def seed_lags(self, history: Mapping[str, Sequence[tuple[float, int]]]) -> None:
        """Puts points of earlier consoles before those of this one."""
        for group, points in history.items():
            series = self.lag.get(group)
            if series is not None:
                first_s = series.points[0][0] if series.points else float("inf")
                earlier = [point for point in points if point[0] < first_s]
                series.points = deque([*earlier, *series.points], maxlen=KEPT)

    def rate_of(self, topic: str) -> float | None:
        series = self.written.get(topic)
        return None if series is None else series.rate()

    def last_lag(self, group: str) -> int | None:
        series = self.lag.get(group)
        return series.points[-1][1] if series is not None and series.points else None
