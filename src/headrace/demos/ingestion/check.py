"""The lake's three layers and the speed layer, beside a computation from the files."""

from __future__ import annotations

import json

from headrace.demos.picture import Cell, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Files to topics to a lake; speed and batch layer agree."
# The generator fills files; a connector brings them to a topic.
GENERATES_ELSEWHERE = True
INPUTS = {"delivered-lines": kept(7)}
OUTPUTS = {"readings-raw": kept(7, 2), "readings": kept(7, 2), "sensor-totals": compacted()}


def expected(inputs: Contents) -> Result:
    lines = [row["line"] for row in inputs.rows("delivered-lines")]
    readings: dict[str, Result] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        readings[row["reading"]] = row
    result: Result = {"bronze": len(lines), "silver": len(readings)}
    for layer in ("batch", "speed"):
        for row in readings.values():
            key = f"{layer}|{row['sensor']}"
            number, watts, peak = result.get(key, (0, 0, 0))
            result[key] = [number + 1, watts + row["watts"], max(peak, row["watts"])]
    return result


def found(outputs: Contents) -> Result:
    result: Result = {name: outputs.lake.size(name) for name in ("bronze", "silver")}
    for row in outputs.lake.rows("gold"):
        result[f"batch|{row['sensor']}"] = [row["readings"], row["watts"], row["peak"]]
    for sensor, row in outputs.latest("sensor-totals").items():
        result[f"speed|{sensor}"] = [row["readings"], row["watts"], row["peak"]]
    return result


def picture(found: Result, rows: int) -> Picture:
    sensors = sorted({key.split("|")[1] for key in found if "|" in key})
    table: list[list[Cell]] = []
    for sensor in sensors[:rows]:
        speed, batch = (found.get(f"{layer}|{sensor}", (0, 0, 0)) for layer in ("speed", "batch"))
        table.append([sensor, speed[0], speed[1], batch[1], "yes" if speed == batch else "not yet"])
    names = ("sensor", "readings", "watts (speed)", "watts (batch)", "agree")
    return panels(
        Figures("rows in the lake", {"bronze (raw)": found["bronze"], "silver (typed, once)": found["silver"]}),
        Table("the same question, two layers", names, table),
    )
