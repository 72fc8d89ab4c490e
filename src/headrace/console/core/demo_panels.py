"""The panels of a demo's picture, from the JSON that a demo publishes to the topic `__demos`.

Kinds: figures, table, chart, map, feed. A panel that this version does not know, or that is not as it should be, is
left out. Charts and maps become coordinates of an SVG here, so that the template only writes them.
"""

from __future__ import annotations

from headrace.console.core import formats
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject, JsonValue

CHART_WIDTH = 640.0
CHART_HEIGHT = 160.0
MAP_SIZE = 420.0
_COLOURS = 6
_LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: str
    colour: int
    last: str


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    y: float
    label: str
    sort: str
    colour: int


@dataclass(frozen=True, slots=True)
class Area:
    x: float
    y: float
    width: float
    height: float
    label: str
    level: float


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    is_number: bool
    share: float | None = None
    """The length of its bar, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class PanelView:
    kind: str
    title: str
    figures: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    lines: tuple[Line, ...] = ()
    low: str = ""
    high: str = ""
    marks: tuple[Mark, ...] = ()
    areas: tuple[Area, ...] = ()
    height: float = 0.0
    feed: tuple[str, ...] = ()


def panels(found: JsonValue) -> list[PanelView]:
    shown = []
    for panel in found if isinstance(found, list) else ():
        try:
            shown.append(_KINDS[panel["kind"]](panel))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            continue
    return shown


def _figures(panel: JsonObject) -> PanelView:
    return PanelView(
        "figures", str(panel["title"]), tuple((str(name), text_of(value)) for name, value in panel["values"].items())
    )


def _table(panel: JsonObject) -> PanelView:
    columns = tuple(str(name) for name in panel["columns"])
    bar = columns.index(panel["bar"]) if panel.get("bar") in columns else None
    rows = [list(row)[: len(columns)] for row in panel["rows"][:_LONGEST_LIST]]
    largest = max((_number(row[bar]) for row in rows), default=0.0) if bar is not None else 0.0
    cells = tuple(
        tuple(
            Cell(
                text_of(value),
                isinstance(value, int | float),
                _number(value) / largest if at == bar and largest > 0 else None,
            )
            for at, value in enumerate(row)
        )
        for row in rows
    )
    return PanelView("table", str(panel["title"]), columns=columns, rows=cells)


def _chart(panel: JsonObject) -> PanelView:
    series = {
        str(name): [(float(x), float(y)) for x, y in line] for name, line in list(panel["series"].items())[:_COLOURS]
    }
    points = [point for line in series.values() for point in line]
    left, right = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=1.0)
    low, high = min([0.0, *(y for _, y in points)]), max([0.0, *(y for _, y in points)])
    width, height = (right - left) or 1.0, (high - low) or 1.0
    unit = str(panel.get("unit", ""))
    lines = tuple(
        Line(
            name,
            " ".join(
                f"{(x - left) / width * CHART_WIDTH:.1f},{CHART_HEIGHT - (y - low) / height * CHART_HEIGHT:.1f}"
                for x, y in line
            ),
            at,
            f"{text_of(line[-1][1])} {unit}" if line else "–",
        )
        for at, (name, line) in enumerate(series.items())
    )
    return PanelView("chart", str(panel["title"]), lines=lines, low=text_of(low), high=f"{text_of(high)} {unit}")


def _map(panel: JsonObject) -> PanelView:
    scale = MAP_SIZE / float(panel["width"])
    height = float(panel["height"]) * scale
    sorts: dict[str, int] = {}
    marks = []
    for point in panel["points"][:_LONGEST_LIST]:
        colour = sorts.setdefault(str(point["sort"]), len(sorts) % _COLOURS)
        x, y = float(point["x"]) * scale, height - float(point["y"]) * scale
        marks.append(Mark(round(x, 1), round(y, 1), str(point["label"]), str(point["sort"]), colour))
    areas = []
    for zone in panel["zones"][:_LONGEST_LIST]:
        tall = float(zone["height"]) * scale
        y = height - float(zone["y"]) * scale - tall
        level = min(1.0, max(0.0, float(zone["level"])))
        areas.append(
            Area(
                round(float(zone["x"]) * scale, 1), round(y, 1), round(float(zone["width"]) * scale, 1),
                round(tall, 1), str(zone["label"]), round(level, 2),
            )
        )  # fmt: skip
    return PanelView("map", str(panel["title"]), marks=tuple(marks), areas=tuple(areas), height=round(height, 1))


def _feed(panel: JsonObject) -> PanelView:
    return PanelView("feed", str(panel["title"]), feed=tuple(str(line) for line in panel["lines"][:_LONGEST_LIST]))


_KINDS = {"figures": _figures, "table": _table, "chart": _chart, "map": _map, "feed": _feed}


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def text_of(value: JsonValue) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formats.number(value)
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
