"""Draws a picture in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from headrace.demos.picture import Cell, Chart, Feed, Figures, Map, Panel, Picture, Table

_MARKS: Final = "▁▂▃▄▅▆▇█"
_BAR: Final = 20
_LINE: Final = 40
_SIGNS: Final = "●▲◆■"
_COLOURS: Final = ("cyan", "yellow", "magenta", "green")
_MAP_COLUMNS: Final = 40
_MAP_ROWS: Final = 16


def rendered(shown: Picture) -> RenderableType:
    """Tables stand side by side where they fit; other panels take a line each."""
    parts: list[RenderableType] = []
    beside: list[RenderableType] = []
    for panel in shown.panels:
        if isinstance(panel, Table | Map):
            beside.append(_drawn(panel))
            continue
        if beside:
            parts.append(Columns(beside))
            beside = []
        parts.append(_drawn(panel))
    if beside:
        parts.append(Columns(beside))
    return Group(*parts)


def _drawn(panel: Panel) -> RenderableType:
    if isinstance(panel, Figures):
        facts = "   ".join(f"{name} [b]{_text(value)}[/b]" for name, value in panel.values.items())
        return Text.from_markup(f"[dim]{panel.title}[/dim]  {facts}" if panel.title else facts)
    if isinstance(panel, Table):
        return _table(panel)
    if isinstance(panel, Chart):
        return _chart(panel)
    if isinstance(panel, Map):
        return _map(panel)
    assert isinstance(panel, Feed)
    return Group(Text(panel.title, style="italic"), *(Text(f"  {line}", overflow="ellipsis") for line in panel.lines))


def _table(panel: Table) -> RenderableType:
    drawn = RichTable(title=panel.title, title_justify="left")
    for at, name in enumerate(panel.columns):
        is_number = any(isinstance(row[at], int | float) for row in panel.rows)
        drawn.add_column(name, justify="right" if is_number else "left")
    bar = panel.columns.index(panel.bar) if panel.bar is not None else None
    if bar is not None:
        drawn.add_column("")
    largest = max((_number(row[bar]) for row in panel.rows), default=0.0) if bar is not None else 0.0
    for row in panel.rows:
        cells = [_text(cell) for cell in row]
        if bar is not None:
            cells.append("█" * max(1, round(_BAR * _number(row[bar]) / largest)) if largest > 0 else "")
        drawn.add_row(*cells)
    return drawn


def _chart(panel: Chart) -> RenderableType:
    """One line of marks a series, all on one scale."""
    values = [y for line in panel.series.values() for _, y in line]
    low, high = min([0.0, *values]), max([0.0, *values]) or 1.0
    drawn = RichTable(title=panel.title, title_justify="left", show_header=False, box=None, pad_edge=False)
    for name, line in panel.series.items():
        shown = [y for _, y in _thinned(line)]
        marks = "".join(_MARKS[min(7, int((y - low) / (high - low or 1.0) * 8))] for y in shown)
        drawn.add_row(f"  {name}", marks, f"{_text(shown[-1])} {panel.unit}" if shown else "–")
    return drawn


def _thinned(line: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most so many points as marks fit into a line, the last one included."""
    step = -(-len(line) // _LINE) or 1
    return list(line)[::-1][::step][::-1]


def _map(panel: Map) -> RenderableType:
    signs = dict(
        zip(dict.fromkeys(point.sort for point in panel.points), zip(_SIGNS, _COLOURS, strict=True), strict=False)
    )
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for point in panel.points:
        column = min(_MAP_COLUMNS - 1, int(point.x / panel.width * _MAP_COLUMNS))
        row = min(_MAP_ROWS - 1, int(point.y / panel.height * _MAP_ROWS))
        cells[row, column] = signs[point.sort]
    city = Text()
    for row in reversed(range(_MAP_ROWS)):
        for column in range(_MAP_COLUMNS):
            x, y = (column + 0.5) / _MAP_COLUMNS * panel.width, (row + 0.5) / _MAP_ROWS * panel.height
            sign, colour = cells.get((row, column), ("·", "bright_black"))
            city.append(sign, style=f"{colour} on {_shade(panel, x, y)}")
        city.append("\n")
    legend = Text("  ".join(f"{sign} {sort}" for sort, (sign, _) in signs.items()))
    zones = Text("   ".join(zone.label for zone in panel.zones))
    return Group(Text(panel.title, style="italic"), city, legend, zones)


def _shade(panel: Map, x: float, y: float) -> str:
    for zone in panel.zones:
        if zone.x <= x < zone.x + zone.width and zone.y <= y < zone.y + zone.height:
            return f"rgb({int(20 + 110 * min(zone.level, 1.0))},20,28)"
    return "default"


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.2f}" if isinstance(cell, float) else cell
