"""Averages and alerts of hosts without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from rich.table import Table

from headrace.demos.topics import Contents, Result

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "Metrics of hosts: collected, downsampled, watched."
OUTPUTS = {
    "host-averages": {"cleanup.policy": "compact,delete", "retention.ms": "2592000000"},
    "host-alerts": {"retention.ms": "604800000"},
}
_WINDOW_MS: Final = 10_000
_LIMIT: Final = 95


def expected(inputs: Contents) -> Result:
    windows = defaultdict(list)
    alerts: Counter[str] = Counter()
    for row in inputs.rows("host-metrics"):
        windows[f"{row['host']}|{row['at'] // _WINDOW_MS * _WINDOW_MS}"].append(row["cpu"])
        if row["cpu"] > _LIMIT:
            alerts[f"alert|{row['host']}|{row['at']}|{float(row['cpu'])}"] += 1
    result: Result = {key: [round(sum(each), 1), max(each), len(each)] for key, each in windows.items()}
    return result | alerts


def found(outputs: Contents) -> Result:
    averages = outputs.latest("host-averages")
    result: Result = {key: [each["sum"], each["max"], each["reports"]] for key, each in averages.items()}
    return result | Counter(
        f"alert|{row['host']}|{row['at']}|{float(row['cpu'])}" for row in outputs.rows("host-alerts")
    )


def picture(found: Result, rows: int) -> RenderableType:
    series: dict[str, dict[int, float]] = defaultdict(dict)
    alerts: Counter[str] = Counter()
    for key, value in found.items():
        host, _, rest = key.removeprefix("alert|").partition("|")
        if key.startswith("alert|"):
            alerts[host] += value
        else:
            series[host][int(rest)] = value[0] / value[2]
    table = Table(title="load of hosts, ten seconds a mark", title_justify="left")
    for name in ("host", "now", "alerts", "past"):
        table.add_column(name, justify="right" if name in ("now", "alerts") else "left")
    for host in sorted(series, key=lambda name: -series[name][max(series[name])])[:rows]:
        values = [series[host][start] for start in sorted(series[host])]
        marks = "".join("▁▂▃▄▅▆▇█"[min(7, int(value / 12.5))] for value in values[-40:])
        table.add_row(host, f"{values[-1]:.1f} %", f"{alerts[host]:,}", marks)
    return table
