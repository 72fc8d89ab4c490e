"""Lag from committed offsets and ends, and the state of Spark flows. Pure.

The lag of a group in a topic counts the records of all partitions of the topic. A partition without a committed offset
counts with all its records. The lag in seconds is the age of the oldest record that the group has not read, by the
timestamp of its batch. If an end is not known, the group has no lag in this topic: a partial sum would look better than
the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject

Span = tuple[int, int]
"""First offset and high watermark."""
Positions = Mapping[str, Mapping[int, int]]
"""Committed offsets of one group: topic → partition → offset."""

# A driver reports at least once per heartbeat. After this many missed ones its process is gone.
_MISSED_HEARTBEATS: Final = 3
_HEARTBEAT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class TopicLag:
    records: int
    unread: tuple[tuple[TopicPartition, int], ...]
    """The first unread offset of each partition with lag."""

    def seconds(self, written_ms: Mapping[tuple[TopicPartition, int], int], now_ms: int) -> float | None:
        """None if no time of an unread record is known."""
        if not self.records:
            return 0.0
        times = [written_ms[place] for place in self.unread if place in written_ms]
        return max(0.0, (now_ms - min(times)) / 1000) if times else None


def topic_lags(
    positions: Positions, spans: Mapping[TopicPartition, Span], partitions: Mapping[str, int]
) -> Iterator[tuple[str, TopicLag]]:
    """`partitions` is the number of partitions of each topic. Topics that are deleted, or whose ends are not all known,
    are left out."""
    for topic, committed in positions.items():
        records, unread = 0, []
        for index in range(partitions.get(topic, 0)):
            partition = TopicPartition(topic, index)
            span = spans.get(partition)
            if span is None:
                break
            first, end = span
            at = max(first, committed.get(index, first))
            if at < end:
                records += end - at
                unread.append((partition, at))
        else:
            if topic in partitions:
                yield topic, TopicLag(records, tuple(unread))


@dataclass(frozen=True, slots=True)
class FlowReport:
    """The last report of one Spark flow. Missing fields, which another version would write, are 0."""

    pipeline: str
    flow: str
    state: str
    at_ms: int
    heartbeat_ms: int
    lag: int | None
    lag_seconds: float
    batch_s: float
    input_rate: float
    processed_rate: float
    restarts: int
    dead_letters: int
    state_rows: int

    @classmethod
    def of(cls, found: JsonObject) -> FlowReport:
        """Raises TypeError, ValueError, AttributeError for JSON that is no report."""
        lag = found.get("lag")
        return cls(
            str(found["pipeline"]), str(found.get("flow", "")), str(found.get("state", "unknown")),
            int(found.get("at_ms") or 0), int(found.get("heartbeat_ms") or _HEARTBEAT_MS),
            None if lag is None else int(lag), float(found.get("lag_seconds") or 0),
            int(found.get("batch_ms") or 0) / 1000, float(found.get("input_rows_per_second") or 0),
            float(found.get("processed_rows_per_second") or 0), int(found.get("restarts") or 0),
            int(found.get("dead_letters") or 0), int(found.get("state_rows") or 0),
        )  # fmt: skip

    def is_lost(self, now_ms: int) -> bool:
        """Whether the flow says that it runs, but its process has stopped reporting."""
        return self.state in ("running", "restarting") and now_ms - self.at_ms > _MISSED_HEARTBEATS * self.heartbeat_ms

    def is_running(self, now_ms: int) -> bool:
        return self.state == "running" and not self.is_lost(now_ms)

    def is_failing(self, now_ms: int) -> bool:
        """A flow that a person stopped is not failing."""
        return self.state in ("failed", "restarting") or self.is_lost(now_ms)
