"""Counters that the hot path increments and a scrape reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

# From a tenth of a millisecond, the fastest response, to ten seconds, when clients give up.
SECONDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


class Histogram:
    """Counts by upper bound; the last bucket counts everything above."""

    __slots__ = ("bounds", "buckets", "count", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.buckets[bisect_left(self.bounds, value)] += 1


class TopicTraffic:
    """Traffic of one topic on this broker. Callers keep the object and increment its fields."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.replication_bytes_out = 0
        self.produces = self.fetches = self.failed_produces = self.failed_fetches = 0


class TrafficByTopic(dict[str, TopicTraffic]):
    """`traffic["orders"].bytes_in += n`. The first use creates the entry of a topic; `pop` removes it."""

    def __missing__(self, topic: str) -> TopicTraffic:
        found = self[topic] = TopicTraffic()
        return found


class LoginCounts:
    """Logins of all SASL listeners. `expired` counts connections that used a session after its end."""

    __slots__ = ("expired", "failures", "renewals", "successes")

    def __init__(self) -> None:
        self.successes = self.renewals = self.failures = self.expired = 0

    def succeeded(self, *, renewed: bool) -> None:
        if renewed:
            self.renewals += 1
        else:
            self.successes += 1

    def failed(self) -> None:
        self.failures += 1
