"""Draws a picture in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from headrace.demos.picture import Cell, Chart, Feed, Figures, Map, Panel, Picture, Table

_MARKS: Final = "▁▂▃▄▅▆▇█"
_BAR: Final = 20
_LINE: Final = 40
_SIGNS: Final = "●▲◆■"
_COLOURS: Final = ("cyan", "yellow", "magenta", "green")
_MAP_ROWS: Final = 16
_FEWEST_MAP_ROWS: Final = 8
# A character is about twice as high as wide. A little wider still looks square and has more places.
_COLUMNS_PER_ROW: Final = 2.5
_GAP: Final = 2


def rendered(shown: Picture, lines: int | None = None) -> RenderableType:
    """Tables stand side by side where they fit, beside a map if there is one; other panels take a line each.

    `lines` is the height of the screen, for maps.
    """
    map_rows = _MAP_ROWS if lines is None else max(_FEWEST_MAP_ROWS, min(_MAP_ROWS, lines - 10))
    parts: list[RenderableType] = []
    beside: list[RenderableType] = []
    for panel in shown.panels:
        if isinstance(panel, Table | Map):
            beside.append(_map(panel, map_rows) if isinstance(panel, Map) else _table(panel))
            continue
        if beside:
            parts.append(_SideBySide(beside))
            beside = []
        parts.append(_drawn(panel))
    if beside:
        parts.append(_SideBySide(beside))
    return Group(*parts)


class _SideBySide:
    """As many panels in a line as the width allows. What comes after a map is stacked beside it."""

    def __init__(self, panels: Sequence[RenderableType], columns: int | None = None) -> None:
        self._panels, self._columns = panels, columns

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        columns = self._columns or options.max_width
        return Measurement(columns, columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first, *rest = self._panels
        columns = self._columns or options.max_width
        if isinstance(first, _DrawnMap) and rest:
            left = columns - first.columns - _GAP
            if all(_width(console, options, each) <= left for each in rest):
                yield _line([first, _SideBySide(rest, left)])
                return
        line: list[RenderableType] = []
        used = 0
        for panel in self._panels:
            width = _width(console, options, panel)
            if line and used + _GAP + width > columns:
                yield _line(line)
                line, used = [], 0
            used += width + (_GAP if line else 0)
            line.append(panel)
        yield _line(line)


def _width(console: Console, options: ConsoleOptions, panel: RenderableType) -> int:
    return Measurement.get(console, options, panel).maximum


def _line(panels: Sequence[RenderableType]) -> RenderableType:
    grid = RichTable.grid(padding=(0, _GAP))
    for panel in panels:
        grid.add_column(min_width=panel.columns if isinstance(panel, _DrawnMap) else None)
    grid.add_row(*panels)
    return grid


def _drawn(panel: Panel) -> RenderableType:
    if isinstance(panel, Figures):
        facts = "   ".join(f"{name} [b]{_text(value)}[/b]" for name, value in panel.values.items())
        told = Text.from_markup(f"[dim]{panel.title}[/dim]  {facts}" if panel.title else facts)
        # Also on a console that does not wrap: the last figure may be the verdict.
        told.no_wrap, told.overflow = False, "fold"
        return told
    if isinstance(panel, Chart):
        return _chart(panel)
    assert isinstance(panel, Feed)
    if not panel.lines:
        return _nothing_yet(panel.title)
    return Group(Text(panel.title, style="italic"), *(Text(f"  {line}", overflow="ellipsis") for line in panel.lines))


def _nothing_yet(title: str) -> RenderableType:
    """Before the first result, instead of a frame without content."""
    return Group(Text(title, style="italic"), Text("  nothing yet", style="dim"))


def _table(panel: Table) -> RenderableType:
    if not panel.rows:
        return _nothing_yet(panel.title)
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
    if not panel.series:
        return _nothing_yet(panel.title)
    values = [y for line in panel.series.values() for _, y in line]
    low, high = min([0.0, *values]), max([0.0, *values]) or 1.0
    drawn = RichTable(show_header=False, box=None, pad_edge=False)
    for name, line in panel.series.items():
        shown = [y for _, y in _thinned(line)]
        marks = "".join(_MARKS[min(7, int((y - low) / (high - low or 1.0) * 8))] for y in shown)
        drawn.add_row(f"  {name}", marks, f"{_text(shown[-1])} {panel.unit}" if shown else "–")
    return Group(Text(panel.title, style="italic"), drawn)


def _thinned(line: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most so many points as marks fit into a line, the last one included."""
    step = -(-len(line) // _LINE) or 1
    return list(line)[::-1][::step][::-1]


class _DrawnMap:
    def __init__(self, columns: int, lines: RenderableType) -> None:
        self.columns, self._lines = columns, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._lines, options.update(width=min(self.columns, options.max_width)))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self.columns, self.columns)


def _map(panel: Map, rows: int) -> _DrawnMap:
    columns = int(rows * _COLUMNS_PER_ROW)
    signs = dict(
        zip(dict.fromkeys(point.sort for point in panel.points), zip(_SIGNS, _COLOURS, strict=True), strict=False)
    )
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for point in panel.points:
        column = min(columns - 1, int(point.x / panel.width * columns))
        row = min(rows - 1, int(point.y / panel.height * rows))
        cells[row, column] = signs[point.sort]
    city = Text(no_wrap=True)
    for row in reversed(range(rows)):
        for column in range(columns):
            x, y = (column + 0.5) / columns * panel.width, (row + 0.5) / rows * panel.height
            sign, colour = cells.get((row, column), ("·", "bright_black"))
            city.append(sign, style=f"{colour} on {_shade(panel, x, y)}")
        city.append("\n" if row else "")
    legend = _legend([f"{sign} {sort}" for sort, (sign, _) in signs.items()], columns)
    zones = _legend([zone.label for zone in panel.zones], columns)
    return _DrawnMap(columns, Group(Text(panel.title, style="italic"), city, legend, zones))


def _legend(entries: Sequence[str], columns: int) -> Text:
    """The lines break between two entries and not within one."""
    lines = [""]
    for entry in entries:
        longer = f"{lines[-1]}  {entry}" if lines[-1] else entry
        if len(longer) > columns and lines[-1]:
            lines.append(entry)
        else:
            lines[-1] = longer
    return Text("\n".join(lines))


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
