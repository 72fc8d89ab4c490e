"""Averages and alerts of hosts without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from headrace.demos.picture import Cell, Chart, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, kept

TITLE = "Metrics of hosts: collected, downsampled, watched."
OUTPUTS = {"host-averages": kept(30, 2, compact=True), "host-alerts": kept(7, 2)}
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


def picture(found: Result, rows: int) -> Picture:
    series: dict[str, dict[int, float]] = defaultdict(dict)
    alerts: Counter[str] = Counter()
    for key, value in found.items():
        host, _, rest = key.removeprefix("alert|").partition("|")
        if key.startswith("alert|"):
            alerts[host] += value
        else:
            series[host][int(rest)] = round(value[0] / value[2], 1)
    busiest = sorted(series, key=lambda name: -series[name][max(series[name])])[:rows]
    lines = {host: [(start, series[host][start]) for start in sorted(series[host])] for host in busiest}
    table: list[list[Cell]] = [[host, lines[host][-1][1], alerts[host]] for host in busiest]
    return panels(
        Table("busiest hosts", ("host", "load %", "alerts"), table, bar="load %"),
        Chart("load, ten seconds a mark", "%", dict(list(lines.items())[:6])),
    )
