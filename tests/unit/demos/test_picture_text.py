"""Pictures in a terminal: numbers to the right, bars to scale, maps with north up."""

from __future__ import annotations

import io

from rich.console import Console

from headrace.demos.picture import Chart, Feed, Figures, Map, Panel, Point, Table, Zone, document, picture
from headrace.demos.picture_text import rendered


def drawn(*panels: Panel, width: int = 120, lines: int | None = None) -> list[str]:
    screen = io.StringIO()
    Console(file=screen, width=width).print(rendered(picture(*panels), lines))
    return screen.getvalue().splitlines()


def test_bars_are_to_scale() -> None:
    lines = drawn(Table("rides", ("ride", "km"), [["a", 10], ["b", 5], ["c", None]], bar="km"))
    assert [line.count("█") for line in lines if "│" in line] == [20, 10, 1]


def test_panels_without_content_say_so() -> None:
    empty = (Table("rides", ("ride", "km"), [], bar="km"), Feed("alerts", []), Chart("lag", "records", {}))
    for panel in empty:
        assert [line.rstrip() for line in drawn(panel)] == [panel.title, "  nothing yet"]


def test_many_figures_take_two_lines() -> None:
    screen = io.StringIO()
    figures = Figures("", {"clicks of 100 impressions, B more than A": "+7.7", "verdict": "no clear difference"})
    # As a demo prints: without wrapping.
    Console(file=screen, width=60, soft_wrap=True).print(rendered(picture(figures)))
    lines = screen.getvalue().splitlines()
    assert len(lines) == 2 and lines[1].endswith("difference")


def test_north_is_up_and_points_have_a_legend() -> None:
    points = [Point(0, 9.9, "ann", "rider"), Point(9.9, 0, "bob", "driver")]
    lines = drawn(Map("city", 10, 10, points, [Zone(0, 0, 5, 5, "× 2.0", 0.5)]))
    assert lines[1].startswith("●") and lines[16].rstrip().endswith("▲")
    assert "● rider  ▲ driver" in "\n".join(lines) and "× 2.0" in "\n".join(lines)


def test_tables_are_stacked_beside_a_map() -> None:
    city = Map("city", 10, 10, [Point(5, 5, "ann", "rider")], [Zone(0, 0, 5, 5, "south", 0.5)])
    tables = [Table(name, ("ride", "km"), [["a", 10]]) for name in ("short rides", "long rides")]
    narrow, wide, low = drawn(city, *tables, width=60), drawn(city, *tables, width=120), drawn(city, lines=20)
    assert "city" in narrow[0] and "short rides" in narrow[0] and sum("long rides" in line for line in narrow[1:]) == 1
    assert "city" in wide[0] and "short rides" in wide[0] and "long rides" in wide[0]
    assert narrow[1].startswith("·" * 40) and sum("·" in line for line in low) == 10
    assert len(drawn(city, *tables, width=45)) > len(narrow), "below the map where the width is too small"


def test_a_chart_is_one_line_of_marks_for_each_series() -> None:
    lines = drawn(Chart("lag", "records", {"lag": [(0, 0), (1, 5), (2, 10)], "empty": []}))
    assert any("▁▅█" in line and "10 records" in line for line in lines)
    assert any("empty" in line and "–" in line for line in lines)


def test_figures_and_feeds_show_their_values() -> None:
    text = "\n".join(drawn(Figures("now", {"alerts": 1200}), Feed("latest", ["one", "two"])))
    assert "alerts 1,200" in text and text.index("one") < text.index("two")


def test_the_document_has_the_kinds_of_panels() -> None:
    assert [panel["kind"] for panel in document(picture(Feed("f", []), Table("t", ("a",), [])))] == ["feed", "table"]
