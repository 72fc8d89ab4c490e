"""How far behind groups are, and how that has been going: the numbers behind `headrace groups lag` and the doctor."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from headrace.cli.kafka_tools.group_offsets import committed, ends
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition

_BARS: Final = "▁▂▃▄▅▆▇█"
_KEPT: Final = 20


def sparkline(values: Sequence[int]) -> str:
    """`▁▂█`: scaled from zero to the largest, so that a level line is a level line."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[round(max(0, value) / top * (len(_BARS) - 1))] for value in values)


async def lag_rows(client: ClusterClient, groups: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for group in groups:
        positions = await committed(client, group)
        if not positions:
            continue
        known = (await client.refresh({p.topic for p in positions})).topics
        there = {name for name, topic in known.items() if not topic.error_code}
        partitions = sorted(p for p in positions if p.topic in there)
        found = await ends(client, partitions)
        for partition in partitions:
            end = found[partition]
            last = None if isinstance(end, Fault) else end.offset
            rows.append(
                {
                    "group": group,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "position": positions[partition].offset,
                    "end": last,
                    "lag": None if last is None else max(0, last - positions[partition].offset),
                }
            )
    return rows


class History:
    """The last looks at each partition of each group."""

    def __init__(self) -> None:
        self._lags: dict[tuple[str, TopicPartition], deque[int]] = {}
        self._last: dict[tuple[str, TopicPartition], tuple[float, int]] = {}

    def add(self, rows: Sequence[dict[str, Any]], now_s: float) -> list[dict[str, Any]]:
        """The rows with reading rate and sparkline added."""
        drawn = []
        for row in rows:
            key = (row["group"], TopicPartition(row["topic"], row["partition"]))
            lags = self._lags.setdefault(key, deque(maxlen=_KEPT))
            lags.append(row["lag"] or 0)
            before = self._last.get(key)
            rate = None
            if before is not None and now_s > before[0]:
                rate = round((row["position"] - before[1]) / (now_s - before[0]), 1)
            self._last[key] = (now_s, row["position"])
            drawn.append({**row, "read_per_s": rate, "recently": sparkline(list(lags))})
        return drawn
