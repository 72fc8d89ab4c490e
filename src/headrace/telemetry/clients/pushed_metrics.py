"""The last values that clients have pushed, for the metrics endpoint.

A client sends the change of a counter since its last push (delta temporality); the values are added up here, as
Prometheus expects. Clients choose the names and attributes of their metrics, so all is bounded: clients, series of one
client, all series, and the length of a label. Series above a bound are dropped and counted. A client that has not
pushed for three intervals (at least a minute) disappears. Owned by the event loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from headrace.telemetry.clients.otlp import Point

MOST_CLIENTS: Final = 1_000
MOST_SERIES_PER_CLIENT: Final = 500
MOST_SERIES: Final = 20_000
LONGEST_LABEL: Final = 200
LEAST_KEPT_MS: Final = 60_000

Rows = list[tuple[tuple[str, ...], float]]


class _Client:
    __slots__ = ("client_id", "kept_until_ms", "values")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.kept_until_ms = 0
        self.values: dict[tuple[str, str], float] = {}


class PushedMetrics:
    def __init__(self) -> None:
        self.pushes = 0
        self.dropped_series = 0
        self._clients: dict[UUID, _Client] = {}
        self._series = 0

    def pushed(self, instance: UUID, client_id: str, points: Iterable[Point], *, interval_ms: int, now_ms: int) -> None:
        self._expire(now_ms)
        self.pushes += 1
        client = self._clients.pop(instance, None) or _Client(client_id[:LONGEST_LABEL])
        self._clients[instance] = client  # the newest push is last
        if len(self._clients) > MOST_CLIENTS:
            self._remove(next(iter(self._clients)))
        client.kept_until_ms = now_ms + max(LEAST_KEPT_MS, 3 * interval_ms)
        for point in points:
            attributes = ",".join(f"{key}={value}" for key, value in point.attributes)
            series = point.name[:LONGEST_LABEL], attributes[:LONGEST_LABEL]
            if series not in client.values:
                if len(client.values) >= MOST_SERIES_PER_CLIENT or self._series >= MOST_SERIES:
                    self.dropped_series += 1
                    continue
                self._series += 1
                client.values[series] = 0.0
            if math.isfinite(point.value):
                client.values[series] = point.value + (client.values[series] if point.is_delta else 0.0)

    def rows(self, now_ms: int) -> Rows:
        """(metric, client id, client instance id, attributes) and value."""
        self._expire(now_ms)
        return [
            ((name, client.client_id, str(instance), attributes), value)
            for instance, client in self._clients.items()
            for (name, attributes), value in client.values.items()
        ]

    def clients(self, now_ms: int) -> int:
        self._expire(now_ms)
        return len(self._clients)

    def _expire(self, now_ms: int) -> None:
        for instance in [found for found, client in self._clients.items() if client.kept_until_ms <= now_ms]:
            self._remove(instance)

    def _remove(self, instance: UUID) -> None:
        self._series -= len(self._clients.pop(instance).values)
