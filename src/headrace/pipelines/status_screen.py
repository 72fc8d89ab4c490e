"""How `headrace pipeline status` looks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

_COLOURS = {"running": "green", "stopped": "dim", "restarting": "yellow", "failed": "red"}


def table_of(flows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (
        "flow",
        "state",
        "batch",
        "rows/s",
        "lag",
        "batch ms",
        "state rows",
        "missed",
        "watermark",
        "seen",
        "last error",
    ):
        table.add_column(
            name, justify="right" if name in ("batch", "rows/s", "lag", "batch ms", "state rows", "missed") else "left"
        )
    now_ms = time.time() * 1000
    for flow in flows:
        colour = _COLOURS.get(flow["state"], "white")
        table.add_row(
            f"{flow['pipeline']}.{flow['flow']}",
            f"[{colour}]{flow['state']}[/{colour}]",
            str(flow["batch_id"]),
            f"{flow['processed_rows_per_second']:.0f}",
            str(flow["lag"]),
            str(flow["batch_ms"]),
            str(flow["state_rows"]),
            str(flow["missed"]),
            flow["watermark"] or "",
            f"{max(now_ms - flow['at_ms'], 0) / 1000:.0f} s ago",
            flow["last_error"] or "",
        )
    return table
