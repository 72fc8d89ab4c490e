"""Pictures of demos as `headrace demo` publishes them to the topic `__demos`."""

from __future__ import annotations

import json
import time

from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.names import unique

PANELS = [
    {"kind": "figures", "title": "", "values": {"done": 1234, "share": 0.5, "none": None}},
    {"kind": "table", "title": "rides", "columns": ["ride", "km"], "rows": [["a", 4.0], ["b", 2.0]], "bar": "km"},
    {"kind": "chart", "title": "lag", "unit": "records", "series": {"lag": [[0, 0], [10, 50], [20, 25]]}},
    {
        "kind": "map", "title": "city", "width": 10, "height": 10,
        "points": [{"x": 5, "y": 0, "label": "ann", "sort": "rider"}],
        "zones": [{"x": 0, "y": 5, "width": 5, "height": 5, "label": "x 2", "level": 0.5}],
    },
    {"kind": "feed", "title": "alerts", "lines": ["<b>one</b>", "two"]},
]  # fmt: skip


def _publish(scene: Scene, name: str, **fields: object) -> None:
    base = {
        "demo": name,
        "title": "A demo.",
        "state": "running",
        "at_ms": int(time.time() * 1000),
        "facts": {"sent": 7},
    }
    scene.produce("__demos", (name, json.dumps({**base, "panels": PANELS, **fields})))


def test_a_demo_shows_its_panels(scene: Scene) -> None:
    name = unique("taxi")
    _publish(scene, name)
    demo = fetch_json(scene.page(f"/demos?name={name}"))["demo"]
    figures, table, chart, map_, feed = demo["panels"]
    assert (demo["state"], demo["facts"]) == ("running", [["sent", "7"]])
    assert [value for _, value in figures["figures"]] == ["1\u2009234", "0.5", "–"]
    assert [[cell["share"] for cell in row] for row in table["rows"]] == [[None, 1.0], [None, 0.5]]
    assert chart["lines"][0]["points"] == "0.0,160.0 320.0,0.0 640.0,80.0" and chart["high"] == "50 records"
    # North is up: a point with y = 0 is at the lower edge.
    assert (map_["marks"][0]["x"], map_["marks"][0]["y"], map_["areas"][0]["y"]) == (210.0, 420.0, 0.0)
    status, page = status_of(scene.page(f"/demos?name={name}"))
    assert status == 200 and "&lt;b&gt;one&lt;/b&gt;" in page and feed["feed"] == ["<b>one</b>", "two"]


def test_panels_without_content_say_so(scene: Scene) -> None:
    name = unique("early")
    empty: list[dict[str, object]] = [
        {"kind": "table", "title": "rides", "columns": ["ride", "km"], "rows": [], "bar": "km"},
        {"kind": "chart", "title": "lag", "unit": "records", "series": {}},
        {"kind": "feed", "title": "alerts", "lines": []},
    ]
    _publish(scene, name, panels=empty)
    status, page = status_of(scene.page(f"/demos?name={name}"))
    assert status == 200 and page.count("Nothing yet.") == 3


def test_without_a_name_the_page_shows_the_demo_that_published_last(scene: Scene) -> None:
    first, last = unique("first"), unique("last")
    _publish(scene, first, at_ms=int(time.time() * 1000) + 1000)
    _publish(scene, last, at_ms=int(time.time() * 1000) + 2000)
    found = fetch_json(scene.page("/demos"))
    assert found["demo"]["name"] == last and {first, last} <= set(found["names"])


def test_records_that_are_no_pictures_and_unknown_panels_do_not_break_the_page(scene: Scene) -> None:
    name = unique("odd")
    _publish(scene, name, panels=[{"kind": "hologram"}, {"kind": "table", "columns": 3}, "x", PANELS[4]])
    scene.produce("__demos", ("x", "not json"), ("y", "[1]"), (b"\xff", b"\xfe"), ("z", None), ("w", '{"facts": 1}'))
    demo = fetch_json(scene.page(f"/demos?name={name}"))["demo"]
    assert [panel["kind"] for panel in demo["panels"]] == ["feed"]
    status, page = status_of(scene.page("/demos?name=absent"))
    assert status == 200 and "Demo absent has not published a picture yet" in page
