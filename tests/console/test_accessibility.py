"""axe finds no serious violation on any page, in light and dark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browser import chromium, page_of, serious_violations
from tests.console.conftest import Scene

pytestmark = pytest.mark.needs("chromium", "npm")

PAGES = (
    "",
    "/topics?internal=1",
    "/new-topic",
    "/topics/orders",
    "/topics/orders?configs=all",
    "/topics/orders/configure",
    "/topics/orders/delete",
    "/topics/orders/messages",
    "/topics/orders/messages/0/0",
    "/topics/orders/search?q=n",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/groups",
    "/group?id=billing",
    "/group/reset?id=billing&way=earliest",
    "/pipelines",
    "/flow",
    "/sql",
    "/schemas",
    "/security?principal=User:ann&operation=READ&kind=TOPIC&name=orders",
    "/operations",
    "/brokers/0?all=1",
    "/register-schema",
    "/pipeline?name=shop.failed",
    "/demos?name=taxi",
    "/topics/absent",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def filled(scene: Scene) -> Scene:
    """A cluster in which every page has something to show."""
    scene.topic(1, name="orders")
    scene.produce("orders", *((f"k{n}", json.dumps({"n": n})) for n in range(60)), headers=[("trace", b"t")])
    scene.commit("billing", "orders", 20)
    for state in ("running", "failed"):
        report = {"pipeline": "shop", "flow": state, "state": state, "batch_id": 3, "at_ms": int(time.time() * 1000)}
        scene.produce("__pipelines", (f"shop.{state}", json.dumps({**report, "last_error": "no column x"})))
    panels = [
        {"kind": "table", "title": "rides", "columns": ["ride", "km"], "rows": [["a", 4.0]], "bar": "km"},
        {"kind": "chart", "title": "lag", "unit": "records", "series": {"lag": [[0, 0], [9, 5]]}},
        {"kind": "feed", "title": "alerts", "lines": ["one"]},
    ]
    demo = {"title": "A demo.", "state": "running", "at_ms": int(time.time() * 1000), "facts": {}, "panels": panels}
    scene.produce("__demos", ("taxi", json.dumps(demo)))
    return scene


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation(filled: Scene, browser: Browser, theme: str) -> None:
    found = {}
    with page_of(browser, theme=theme) as page:
        for path in PAGES:
            page.goto(filled.page(path))
            if violations := serious_violations(page):
                found[path] = violations
    assert found == {}


def test_axe_would_find_text_that_cannot_be_read(filled: Scene, browser: Browser) -> None:
    with page_of(browser) as page:
        page.goto(filled.page("/groups"))
        page.evaluate("document.querySelector('h1').style.color = '#eee'")
        assert any("color-contrast" in violation for violation in serious_violations(page))


def test_no_page_is_wider_than_a_phone(filled: Scene, browser: Browser) -> None:
    with page_of(browser, width=390) as page:
        wide = {}
        for path in PAGES:
            page.goto(filled.page(path))
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > 390:
                wide[path] = width
    assert wide == {}


def test_the_first_page_weighs_less_than_300_kilobytes(filled: Scene, browser: Browser) -> None:
    with page_of(browser) as page:
        sizes: list[int] = []
        page.on("response", lambda answer: sizes.append(len(answer.body())))
        page.goto(filled.page(), wait_until="networkidle")
    assert sizes and sum(sizes) < 300_000
