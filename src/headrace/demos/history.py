"""The history of a demo's figures, as charts: the lag of its pipeline, and the values that its check chooses."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.demos.picture import Chart, Picture
from headrace.demos.topics import Result

_POINTS: Final = 600
_EVERY_S: Final = 0.5


class History:
    """Owned by the thread that draws."""

    def __init__(self, trend: Callable[[Result], Chart] | None) -> None:
        self._trend = trend
        self._points: dict[tuple[str, str], dict[str, deque[tuple[float, float]]]] = {}
        self._noted_at = 0.0

    def note(self, found: Result, lag: int | None, *, is_last: bool = False) -> None:
        """Takes one point every half second, and the last one in any case."""
        if time.monotonic() - self._noted_at < _EVERY_S and not is_last:
            return
        self._noted_at = time.monotonic()
        if lag is not None:
            self._add(Chart("lag of the pipeline", "records", {"lag": [(0.0, lag)]}))
        if self._trend is not None and found:
            self._add(self._trend(found))

    def _add(self, latest: Chart) -> None:
        now_ms = time.time() * 1000
        lines = self._points.setdefault((latest.title, latest.unit), {})
        for name, ((_, value),) in latest.series.items():
            lines.setdefault(name, deque(maxlen=_POINTS)).append((now_ms, value))

    def added_to(self, shown: Picture) -> Picture:
        """A chart of zeros alone says nothing and is left out."""
        charts = [
            Chart(title, unit, {name: list(line) for name, line in lines.items()})
            for (title, unit), lines in self._points.items()
            if any(value for line in lines.values() for _, value in line)
        ]
        return Picture((*shown.panels, *charts))
