"""The table of `headrace pipeline status`: its rows, and the live screen in a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.kernel.plurals import counted
from headrace.pipelines.flows.progress import FAILED, LOST, RESTARTING, RUNNING, STOPPED, has_batches

_NUMBERS: Final = {
    "batch": "batch_id", "rows/s": "processed_rows_per_second", "batch ms": "batch_ms",
    "state rows": "state_rows", "late": "late_rows", "missed": "missed",
}  # fmt: skip
_TO_THE_RIGHT: Final = (*_NUMBERS, "lag", "behind")
_COLOURS: Final = {RUNNING: "green", STOPPED: "dim", RESTARTING: "yellow", FAILED: "red", LOST: "red"}
# What needs attention comes first, then what runs.
_ORDER: Final = (FAILED, LOST, RESTARTING, RUNNING, STOPPED)
# Columns of the live screen, by importance: as many as fit beside whole names.
_LIVE: Final = ("state", "lag", "behind", "rows/s", "seen", "batch", "late", "batch ms", "state rows", "missed")
_GAP: Final = 2


def rows_of(flows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Cells of each flow by heading. A flow has no numbers before its first batch has ended."""
    now_ms = time.time() * 1000
    return [
        {
            "flow": f"{flow['pipeline']}.{flow['flow']}",
            "state": flow["state"],
            "lag": _lag(flow),
            "behind": _behind(flow),
            **{name: _number(flow, key) for name, key in _NUMBERS.items()},
            "watermark": flow["watermark"] or "",
            "seen": f"{_age_s(flow, now_ms):.0f} s ago",
            "snapshot": _snapshot(flow.get("snapshot")),
            "last error": flow["last_error"] or "",
        }
        for flow in sorted(flows, key=_place)
    ]


def _place(flow: Mapping[str, object]) -> tuple[int, str]:
    state = str(flow["state"])
    return (_ORDER.index(state) if state in _ORDER else len(_ORDER), f"{flow['pipeline']}.{flow['flow']}")


def _snapshot(state: object) -> str:
    """How far change capture is with the existing rows."""
    if not isinstance(state, Mapping):
        return ""
    of = f" of about {state['of']}" if state.get("of") else ""
    return f"{state['table']}: {counted(state['rows'], 'row')}{of}"


def _age_s(flow: Mapping[str, object], now_ms: float) -> float:
    at_ms = flow["at_ms"]
    return max(now_ms - at_ms, 0) / 1000 if isinstance(at_ms, int) else 0.0


def _lag(flow: Mapping[str, object]) -> int | str | None:
    """Records, or bytes of a database's log with their unit."""
    lag_bytes = _number(flow, "lag_bytes")
    return _number(flow, "lag") if not lag_bytes else _size(lag_bytes)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _behind(flow: Mapping[str, object]) -> str:
    """How long the flow has been behind; empty if its last batch read everything."""
    seconds = _number(flow, "lag_seconds")
    return f"{seconds} s" if seconds else ""


def _number(flow: Mapping[str, object], key: str) -> int | None:
    # Earlier versions report fewer numbers.
    value = flow.get(key) if has_batches(flow) else None
    return round(value) if isinstance(value, int | float) else None


def screen_of(flows: Sequence[Mapping[str, object]], width: int, height: int) -> RenderableType:
    """The live screen: whole names, the columns that fit beside them, the error of a flow below its row, and no more
    lines than the terminal has."""
    rows = rows_of(flows)
    if not rows:
        return Text("no pipeline has reported to this cluster yet")
    shown = _columns(rows, width)
    lines = [Text(" " * _GAP).join(_cell(name, name, shown[name], "bold") for name in shown)]
    hidden = 0
    for at, row in enumerate(rows):
        fresh = [Text(" " * _GAP).join(_cell(name, row[name], shown[name], _style(name, row)) for name in shown)]
        if row["last error"]:
            fresh.append(_cut(f"  {row['last error']}", width))
        if row["snapshot"]:
            fresh.append(_cut(f"  snapshot: {row['snapshot']}", width))
        # The last line says how many flows are not shown.
        if len(lines) + len(fresh) > height - (1 if at < len(rows) - 1 else 0):
            hidden = len(rows) - at
            break
        lines += fresh
    if hidden:
        lines.append(_cut(f"… and {counted(hidden, 'more flow')}: name a pipeline to see only its flows", width))
    return Group(*lines)


def _columns(rows: Sequence[Mapping[str, object]], width: int) -> dict[str, int]:
    """Width of each shown column. The name is always shown, whole."""
    widths = {name: max(len(name), *(len(_shown(row[name])) for row in rows)) for name in ("flow", *_LIVE)}
    chosen = {"flow": widths["flow"]}
    for name in _LIVE:
        if sum(chosen.values()) + _GAP * len(chosen) + widths[name] > width:
            break
        chosen[name] = widths[name]
    return chosen


def _shown(value: object) -> str:
    return "–" if value is None else str(value)


def _cell(name: str, value: object, width: int, style: str = "") -> Text:
    text = _shown(value)
    return Text(text.rjust(width) if name in _TO_THE_RIGHT else text.ljust(width), style=style)


def _style(name: str, row: Mapping[str, object]) -> str:
    return _COLOURS.get(str(row["state"]), "white") if name == "state" else ""


def _cut(text: str, width: int) -> Text:
    return Text(text if len(text) <= width else text[: width - 1] + "…", style="dim")
