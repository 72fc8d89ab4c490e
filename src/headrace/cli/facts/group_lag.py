"""The lag of groups and its history, for `headrace groups lag` and the doctor.

A partition without a committed offset has the position None, and all its records count as lag. A group has rows for all
partitions of every topic for which it has a committed offset or an assigned partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, TypedDict

from headrace.cli.facts.group_positions import SHARE, describe_group
from headrace.cli.facts.topic_facts import offset_spans
from headrace.cli.kafka_tools.support.group_offsets import committed
from headrace.cli.kafka_tools.support.group_view import Listed
from headrace.cli.kafka_tools.support.share_offsets import share_positions
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition

_BARS: Final = "▁▂▃▄▅▆▇█"
_KEPT: Final = 20
Spans = dict[TopicPartition, tuple[int, int] | None]


class Row(TypedDict):
    group: str
    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None


class HistoryRow(Row):
    """A row with its changes since earlier measurements."""

    read_per_s: float | None
    recently: str


def sparkline(values: Sequence[int]) -> str:
    """`▁▂█`: scaled from zero to the largest value, so that a constant lag is a flat line."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[round(max(0, value) / top * (len(_BARS) - 1))] for value in values)


async def lag_rows(client: ClusterClient, groups: Sequence[Listed]) -> list[Row]:
    rows: list[Row] = []
    for group in groups:
        rows += await (_share_rows if group.type == SHARE else _consumer_rows)(client, group)
    return rows


async def _consumer_rows(client: ClusterClient, group: Listed) -> list[Row]:
    positions = await committed(client, group.id)
    members = (await describe_group(client, group)).members
    topics = {p.topic for p in positions} | {p.topic for member in members for p in member.assigned}
    spans = await _spans(client, topics)
    rows = []
    for partition, span in sorted(spans.items()):
        position = positions[partition].offset if partition in positions else None
        lag = None
        if span is not None:
            first, end = span
            lag = max(0, end - (first if position is None else position))
        rows.append(_row(group, partition, position, span, lag))
    return rows


async def _share_rows(client: ClusterClient, group: Listed) -> list[Row]:
    """The coordinator computes the lag, because some records after the start offset are already processed."""
    positions = await share_positions(client, group.id)
    spans = await _spans(client, {p.topic for p in positions})
    return [_row(group, p, found.start_offset, spans.get(p), found.lag) for p, found in positions.items() if p in spans]


async def _spans(client: ClusterClient, names: set[str]) -> Spans:
    """First offset and end of every partition of the existing topics."""
    if not names:
        return {}
    known = (await client.refresh(names)).topics
    return await offset_spans(client, [known[name] for name in names if name in known and not known[name].error_code])


def _row(
    group: Listed, partition: TopicPartition, position: int | None, span: tuple[int, int] | None, lag: int | None
) -> Row:
    end = None if span is None else span[1]
    return {
        "group": group.id, "topic": partition.topic, "partition": partition.partition, "position": position,
        "end": end, "lag": lag,
    }  # fmt: skip


def unread_note(rows: Sequence[Row]) -> str | None:
    """Explains the dash under "position", if a row has one."""
    if any(row["position"] is None and row["lag"] is not None for row in rows):
        return "position –: no committed offset; the lag counts every record in the partition"
    return None


class History:
    """The last measurements of each partition of each group."""

    def __init__(self) -> None:
        self._lags: dict[tuple[str, TopicPartition], deque[int]] = {}
        self._last: dict[tuple[str, TopicPartition], tuple[float, int]] = {}

    def add(self, rows: Sequence[Row], now_s: float) -> list[HistoryRow]:
        """Adds a measurement. Returns the rows with consumption rate and sparkline."""
        drawn: list[HistoryRow] = []
        for row in rows:
            key = (row["group"], TopicPartition(row["topic"], row["partition"]))
            lags = self._lags.setdefault(key, deque(maxlen=_KEPT))
            if row["lag"] is not None:
                lags.append(row["lag"])
            rate = None
            if row["position"] is not None:
                before = self._last.get(key)
                if before is not None and now_s > before[0]:
                    rate = round((row["position"] - before[1]) / (now_s - before[0]), 1)
                self._last[key] = (now_s, row["position"])
            drawn.append({**row, "read_per_s": rate, "recently": sparkline(list(lags))})
        return drawn
