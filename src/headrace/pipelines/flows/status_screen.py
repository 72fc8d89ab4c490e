"""The table of `headrace pipeline status`: its rows, and the live table in a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from headrace.pipelines.flows.progress import has_batches

_NUMBERS = {
    "batch": "batch_id", "rows/s": "processed_rows_per_second", "lag": "lag", "batch ms": "batch_ms",
    "state rows": "state_rows", "missed": "missed",
}  # fmt: skip
_COLOURS = {"running": "green", "stopped": "dim", "restarting": "yellow", "failed": "red"}


def rows_of(flows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Cells of each flow by heading. A flow has no numbers before its first batch has ended."""
    now_ms = time.time() * 1000
    return [
        {
            "flow": f"{flow['pipeline']}.{flow['flow']}",
            "state": flow["state"],
            **{name: _number(flow, key) for name, key in _NUMBERS.items()},
            "watermark": flow["watermark"] or "",
            "seen": f"{_age_s(flow, now_ms):.0f} s ago",
            "last error": flow["last_error"] or "",
        }
        for flow in flows
    ]


def _age_s(flow: Mapping[str, object], now_ms: float) -> float:
    at_ms = flow["at_ms"]
    return max(now_ms - at_ms, 0) / 1000 if isinstance(at_ms, int) else 0.0


def _number(flow: Mapping[str, object], key: str) -> int | None:
    value = flow[key] if has_batches(flow) else None
    return round(value) if isinstance(value, int | float) else None


def table_of(flows: Sequence[Mapping[str, object]]) -> Table:
    """The table for a terminal."""
    table = Table(box=None, pad_edge=False)
    rows = rows_of(flows)
    for name in rows[0] if rows else ("flow",):
        table.add_column(name, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        # Plain text, because an error may contain characters of rich's markup.
        cells = [Text("–" if value is None else str(value)) for value in row.values()]
        cells[1].stylize(_COLOURS.get(str(row["state"]), "white"))
        table.add_row(*cells)
    return table
