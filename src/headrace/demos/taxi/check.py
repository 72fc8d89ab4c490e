"""Matches, demand per zone and costs of rides without Spark, and the map."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Final

from headrace.demos.picture import Map, Picture, Point, Table, Zone
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept, table_size

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


def expected(inputs: Contents) -> Result:
    drivers = [row for row in inputs.rows("driver-positions") if row["state"] == "free"]
    requests = list(inputs.rows("ride-requests"))
    result: Result = {"rows in the lake": sum(1 for _ in inputs.rows("ride-positions"))}
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
    result |= {f"zone|{key}": [each["riders"], each["drivers"]] for key, each in demand.items()}
    tracks = defaultdict(list)
    for row in inputs.rows("ride-positions"):
        tracks[row["ride"]].append((row["at"], row["x"], row["y"]))
    for ride, track in tracks.items():
        km = sum(math.hypot(two[1] - one[1], two[2] - one[2]) for one, two in pairwise(sorted(track)))
        result[f"ride|{ride}"] = [len(track), round(km, 4)]
    return result


def _zone(row: Result) -> str:
    return f"{int(row['x'] / 5)}-{int(row['y'] / 5)}"


def found(outputs: Contents) -> Result:
    assert outputs.tables is not None
    result: Result = {"rows in the lake": table_size(outputs.tables / "ride_track")}
    result |= {
        f"match|{key}": [each["driver"], each["km"], [each["x"], each["y"]], [each["dx"], each["dy"]]]
        for key, each in outputs.latest("matches").items()
    }
    result |= {f"zone|{key}": [each["riders"], each["drivers"]] for key, each in outputs.latest("zone-demand").items()}
    return result | {
        f"ride|{key}": [each["positions"], round(each["km"], 4)] for key, each in outputs.latest("ride-costs").items()
    }


def surge(riders: int, drivers: int) -> float:
    """The price factor of a zone: 1 with enough drivers, at most 3. A driver reports about every two seconds."""
    return round(min(3.0, max(1.0, 5 * riders / max(drivers, 1))), 1)


def picture(found: Result, rows: int) -> Picture:
    latest: dict[str, tuple[int, int, int]] = {}
    for key, (riders, drivers) in ((key, value) for key, value in found.items() if key.startswith("zone|")):
        _, zone, start = key.split("|")
        latest[zone] = max(latest.get(zone, (0, 0, 0)), (int(start), riders, drivers))
    zones = []
    for name, (_, riders, drivers) in sorted(latest.items()):
        x, y = (5.0 * int(part) for part in name.split("-"))
        factor = surge(riders, drivers)
        zones.append(Zone(x, y, 5, 5, f"× {factor}", (factor - 1) / 2))
    made = [(key[6:], *value) for key, value in found.items() if key.startswith("match|")]
    points = [
        point
        for _, _, _, at, by in made[-12:]
        for point in (Point(at[0], at[1], "rider", "rider"), Point(by[0], by[1], "driver", "matched driver"))
    ]
    rides = sorted(
        ((key[5:], value[1]) for key, value in found.items() if key.startswith("ride|")), key=lambda r: -r[1]
    )
    costs = [[ride, round(km, 2), round(_BASE + _PER_KM * km, 2)] for ride, km in rides[:rows]]
    return panels(
        Map("surge price by zone, latest matches", 10, 10, points, zones),
        Table("latest matches", ("request", "driver", "km"), [[r, d, round(km, 2)] for r, d, km, *_ in made[-rows:]]),
        Table("rides", ("ride", "km", "cost"), costs),
    )
