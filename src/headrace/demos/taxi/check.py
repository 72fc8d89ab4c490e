"""Matches, demand per zone and costs of rides without Spark, and the map."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.table import Table

from headrace.demos.topics import Contents, Result

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "Nearest driver, surge prices per zone, exact cost of rides."
OUTPUTS = {
    "match-candidates": {"retention.ms": "3600000"},
    "matches": {"cleanup.policy": "compact"},
    "zone-demand": {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
    "ride-costs": {"cleanup.policy": "compact"},
}
_BASE: Final = 3.0
_PER_KM: Final = 1.8
_SEEN_MS: Final = 2000
_KM: Final = 3.0


def expected(inputs: Contents) -> Result:
    drivers, requests = list(inputs.rows("driver-positions")), list(inputs.rows("ride-requests"))
    result: Result = {}
    for request in requests:
        near = [
            (round(math.hypot(request["x"] - each["x"], request["y"] - each["y"]), 6), each["driver"])
            for each in drivers
            if _zone(each) == _zone(request) and 0 <= request["at"] - each["at"] <= _SEEN_MS
        ]
        if near and min(near)[0] <= _KM:
            result[f"match|{request['request']}"] = list(reversed(min(near)))
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
    result: Result = {f"match|{key}": [each["driver"], each["km"]] for key, each in outputs.latest("matches").items()}
    result |= {f"zone|{key}": [each["riders"], each["drivers"]] for key, each in outputs.latest("zone-demand").items()}
    return result | {
        f"ride|{key}": [each["positions"], round(each["km"], 4)] for key, each in outputs.latest("ride-costs").items()
    }


def surge(riders: int, drivers: int) -> float:
    """The price factor of a zone: 1 with enough drivers, at most 3. A driver reports about every two seconds."""
    return round(min(3.0, max(1.0, 5 * riders / max(drivers, 1))), 1)


def picture(found: Result, rows: int) -> RenderableType:
    latest: dict[str, tuple[int, int, int]] = {}
    for key, (riders, drivers) in ((key, value) for key, value in found.items() if key.startswith("zone|")):
        _, zone, start = key.split("|")
        latest[zone] = max(latest.get(zone, (0, 0, 0)), (int(start), riders, drivers))
    city = Table(title="surge by zone (north is up)", title_justify="left", show_header=False, show_lines=True)
    for y in (1, 0):
        cells = [(latest.get(f"{x}-{y}", (0, 0, 0))) for x in (0, 1)]
        city.add_row(
            *(f"× {surge(riders, drivers)}\n{riders} riders\n{drivers} reports" for _, riders, drivers in cells)
        )
    rides = Table(title="rides", title_justify="left")
    for name in ("ride", "km", "cost"):
        rides.add_column(name, justify="left" if name == "ride" else "right")
    costs = sorted(
        ((key[5:], value[1]) for key, value in found.items() if key.startswith("ride|")), key=lambda item: -item[1]
    )
    for ride, km in costs[:rows]:
        rides.add_row(ride, f"{km:.2f}", f"{_BASE + _PER_KM * km:.2f}")
    matches = Table(title="latest matches", title_justify="left")
    for name in ("request", "driver", "km"):
        matches.add_column(name, justify="right" if name == "km" else "left")
    made = [(key[6:], *value) for key, value in found.items() if key.startswith("match|")]
    for request, driver, km in made[-rows:]:
        matches.add_row(request, driver, f"{km:.2f}")
    return Columns([city, matches, rides])
