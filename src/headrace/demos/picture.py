"""The picture of a demo as data: panels that a terminal and the web console both draw.

A demo makes a `Picture` from its result. `rendered` (`picture_text`) draws it in a terminal. `document` is the JSON
that the demo publishes to the topic `__demos`; the page /demos of the web console draws that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Figures:
    """A few numbers that matter most."""

    title: str
    values: Mapping[str, Cell]
    kind: str = "figures"


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    bar: str | None = None
    """A column of numbers that is also drawn as bars."""
    kind: str = "table"


@dataclass(frozen=True)
class Chart:
    """Lines over one axis, usually time in milliseconds."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    kind: str = "chart"


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    label: str
    sort: str
    """Points of one sort have one sign and one colour."""


@dataclass(frozen=True)
class Zone:
    """A part of a map, coloured by its level from 0 (calm) to 1."""

    x: float
    y: float
    width: float
    height: float
    label: str
    level: float


@dataclass(frozen=True)
class Map:
    """Points and zones on a plane. North is up."""

    title: str
    width: float
    height: float
    points: Sequence[Point] = ()
    zones: Sequence[Zone] = ()
    kind: str = "map"


@dataclass(frozen=True)
class Feed:
    """Lines of text, the newest first."""

    title: str
    lines: Sequence[str]
    kind: str = "feed"


Panel: TypeAlias = Figures | Table | Chart | Map | Feed


@dataclass(frozen=True)
class Picture:
    panels: Sequence[Panel] = field(default_factory=tuple)


def picture(*panels: Panel) -> Picture:
    return Picture(panels)


def document(shown: Picture) -> list[dict[str, object]]:
    """The panels as JSON."""
    return [asdict(panel) for panel in shown.panels]
