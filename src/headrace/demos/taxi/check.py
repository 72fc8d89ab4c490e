"""Matches, demand per zone and costs of rides without Spark, and the map."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Final

from headrace.demos.picture import Cell, Figures, Map, Picture, Point, Table, Zone
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Nearest driver, surge prices per zone, exact cost of rides."
OUTPUTS = {
    "match-candidates": kept(1 / 24, 3),
    "matches": compacted(3),
    "zone-demand": kept(1, compact=True),
    "ride-costs": compacted(3),
}
_BASE: Final = 3.0
_PER_KM: Final = 1.8
_SEEN_MS: Final = 2000
_KM: Final = 3.0
_QUARTERS: Final = {"0-0": "SW", "0-1": "NW", "1-0": "SE", "1-1": "NE"}


def expected(inputs: Contents) -> Result:
    drivers = [row for row in inputs.rows("driver-positions") if row["state"] == "free"]
    requests = list(inputs.rows("ride-requests"))
    tracked = ("driver-positions", "ride-positions")
    result: Result = {"rows in the lake": sum(1 for topic in tracked for _ in inputs.rows(topic))}
    for request in requests:
        near = [
            (
                round(math.hypot(request["x"] - each["x"], request["y"] - each["y"]), 6),
                each["driver"],
                each["x"],
                each["y"],
            )
            for each in drivers
            if _zone(each) == _zone(request) and 0 <= request["at"] - each["at"] <= _SEEN_MS
        ]
        if near and min(near)[0] <= _KM:
            km, driver, *by = min(near)
            result[f"match|{request['request']}"] = [driver, km, [request["x"], request["y"]], by]
    demand: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, rows in (("riders", requests), ("drivers", drivers)):
        for row in rows:
            demand[f"{_zone(row)}|{row['at'] // 10_000 * 10_000}"][kind] += 1
    for key, each in demand.items():
        result[f"zone|{key}"] = [each["riders"], each["drivers"], surge(each["riders"], each["drivers"])]
    tracks = defaultdict(list)
    for row in inputs.rows("ride-positions"):
        tracks[row["ride"]].append((row["at"], row["x"], row["y"]))
    for ride, track in tracks.items():
        km = sum(math.hypot(two[1] - one[1], two[2] - one[2]) for one, two in pairwise(sorted(track)))
        result[f"ride|{ride}"] = [len(track), round(km, 4), round(_BASE + _PER_KM * km, 2), *max(track)[1:]]
    return result


def _zone(row: Result) -> str:
    return f"{int(row['x'] / 5)}-{int(row['y'] / 5)}"


def found(outputs: Contents) -> Result:
    result: Result = {"rows in the lake": outputs.lake.size("positions")}
    result |= {
        f"match|{key}": [each["driver"], each["km"], [each["x"], each["y"]], [each["dx"], each["dy"]]]
        for key, each in outputs.latest("matches").items()
    }
    result |= {
        f"zone|{key}": [each["riders"], each["drivers"], round(each["surge"], 4)]
        for key, each in outputs.latest("zone-demand").items()
    }
    return result | {
        f"ride|{key}": [each["positions"], round(each["km"], 4), round(each["cost"], 2), each["x"], each["y"]]
        for key, each in outputs.latest("ride-costs").items()
    }


def surge(riders: int, drivers: int) -> float:
    """The price factor of a zone: 1 with enough drivers, at most 3. A driver reports about every two seconds."""
    return round(min(3.0, max(1.0, 5 * riders / max(drivers, 1))), 4)


def picture(found: Result, rows: int) -> Picture:
    latest: dict[str, tuple[int, float]] = {}
    rides: list[tuple[str, float, float, float, float]] = []
    made: list[tuple[str, str, float, list[float], list[float]]] = []
    for key, value in found.items():
        kind, _, name = key.partition("|")
        if kind == "zone":
            zone, start = name.split("|")
            latest[zone] = max(latest.get(zone, (0, 0.0)), (int(start), value[2]))
        elif kind == "ride":
            rides.append((name, *value[1:]))
        elif kind == "match":
            made.append((name, *value))
    made.sort(key=lambda match: int(match[0].rpartition("-")[2]))  # requests are numbered as they come
    zones = [
        Zone(5.0 * int(name[0]), 5.0 * int(name[2]), 5, 5, f"{_QUARTERS[name]} × {factor:.1f}", (factor - 1) / 2)
        for name, (_, factor) in sorted(latest.items())
        if name in _QUARTERS
    ]
    points = [Point(x, y, ride, "taxi with a rider") for ride, _, _, x, y in rides]
    for _, driver, _, (x, y), (dx, dy) in made[-8:]:
        points += [Point(dx, dy, driver, "driver on the way"), Point(x, y, "rider", "rider waits")]
    matches: list[list[Cell]] = [[request, driver, round(km, 2)] for request, driver, km, *_ in made[-rows:][::-1]]
    dearest = sorted(rides, key=lambda ride: -ride[2])[:rows]
    costs: list[list[Cell]] = [[ride, round(km, 2), cost] for ride, km, cost, *_ in dearest]
    return panels(
        Figures("", {"matches": len(made), "rides": len(rides), "positions in the lake": found["rows in the lake"]}),
        Map("the city: surge price by quarter", 10, 10, points, zones),
        Table("latest matches", ("request", "driver", "km"), matches),
        Table("rides, the dearest first", ("ride", "km", "cost"), costs),
    )
