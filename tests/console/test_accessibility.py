"""axe finds no serious violation on any page, in light and dark; every page fits on a phone and on a large screen."""

from __future__ import annotations

import json
import time
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import page_of, serious_violations
from tests.console.conftest import Scene
from tests.support.clock import wait_for
from tests.support.effort import is_long

pytestmark = pytest.mark.needs("chromium", "npm")

PAGES: Final = (
    "",
    "/topics?internal=1",
    "/new-topic",
    "/topics/orders",
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
    "/brokers/0?q=log",
    "/register-schema",
    "/pipeline?name=shop.failed",
    "/pipeline/stop?name=shop.running",
    "/pipeline/replay?name=shop.running&way=earliest",
    "/pipeline/reset?name=shop.stopped&way=earliest",
    "/topics/orders/grow",
    "/topics/orders/messages?from=time&time=2020-01-01T00:00",
    "/brokers/0/drain",
    "/flow?q=orders&internal=1",
    "/demos?name=taxi",
    "/topics/absent",
    *(("/brokers/0?all=1", "/topics/orders?configs=all") if is_long() else ()),
)

# Pages with every colour of text and ground: badges, findings, tabs, forms, dangerous buttons, pictures.
DARK: Final = (
    "", "/topics/orders/delete", "/topics/orders/messages", "/group?id=billing", "/pipelines", "/flow", "/sql",
    "/security?principal=User:ann&operation=READ&kind=TOPIC&name=orders", "/pipeline?name=shop.failed",
    "/demos?name=taxi",
)  # fmt: skip


@pytest.fixture(scope="module")
def filled(scene: Scene) -> Scene:
    """A cluster in which every page has something to show."""
    scene.topic(1, name="orders")
    scene.produce("orders", *((f"k{n}", json.dumps({"n": n})) for n in range(60)), headers=[("trace", b"t")])
    scene.commit("billing", "orders", 20)
    for state in ("running", "failed", "stopped"):
        report: dict[str, object] = {
            "pipeline": "shop",
            "flow": state,
            "state": state,
            "batch_id": 3,
            "at_ms": int(time.time() * 1000),
        }
        # Long heartbeats, so that the flows take commands until the last page.
        report |= {"run": "r", "heartbeat_ms": 600_000, "end_offsets": {"orders": {"0": 20}}, "trigger_ms": 100}
        report |= {"target": {"kind": "jdbc", "name": "sales"}, "batch_ms": 140, "plan": "Project [x]"}
        report |= {"command": {"id": "1", "action": "stop", "by": "User:ann", "state": "failed", "message": "no"}}
        report |= {"durations_ms": {"addBatch": 90}, "origins": [{"kind": "cdc", "name": "shop.customers"}]}
        scene.produce("__pipelines", (f"shop.{state}", json.dumps({**report, "last_error": "no column x"})))
    panels = [
        {"kind": "table", "title": "rides", "columns": ["ride", "km"], "rows": [["a", 4.0]], "bar": "km"},
        {"kind": "chart", "title": "lag", "unit": "records", "series": {"lag": [[0, 0], [9, 5]]}},
        {"kind": "feed", "title": "alerts", "lines": ["one"]},
    ]
    demo = {"title": "A demo.", "state": "running", "at_ms": int(time.time() * 1000), "facts": {}, "panels": panels}
    scene.produce("__demos", ("taxi", json.dumps(demo)))
    return scene


def test_no_page_has_a_serious_violation_in_light_or_dark_or_is_wider_than_a_phone(
    filled: Scene, browser: Browser
) -> None:
    """Colours are all that the theme changes, so axe looks at everything in light and at contrast in dark. The frame of
    all pages is the same, so it is looked at once. Dark colours are looked at on the pages that have all of them. The
    long effort looks at everything on every page."""
    found: dict[str, object] = {}
    with page_of(browser) as page:
        for path in PAGES:
            part = "" if path == PAGES[0] or is_long() else "main"
            page.goto(filled.page(path))
            if violations := serious_violations(page, within=part):
                found[f"{path} light"] = violations
            if path in DARK or is_long():
                page.emulate_media(color_scheme="dark", reduced_motion="reduce")
                if violations := serious_violations(page, only="color-contrast", within=part):
                    found[f"{path} dark"] = violations
                page.emulate_media(color_scheme="light", reduced_motion="reduce")
            for width in (390, 3840):
                page.set_viewport_size({"width": width, "height": 900})
                if not _fits(page, width):
                    found[f"{path} at {width}"] = page.evaluate("document.documentElement.scrollWidth")
            page.set_viewport_size({"width": 1280, "height": 900})
    assert found == {}


def _fits(page: Page, width: int) -> bool:
    """Charts follow the width of their place a moment later."""
    try:
        wait_for(lambda: page.evaluate("document.documentElement.scrollWidth") <= width, "the width", within=5)
    except AssertionError:
        return False
    return True


def test_axe_would_find_text_that_cannot_be_read(filled: Scene, browser: Browser) -> None:
    with page_of(browser) as page:
        page.goto(filled.page("/groups"))
        page.evaluate("document.querySelector('h1').style.color = '#eee'")
        assert any("color-contrast" in violation for violation in serious_violations(page, only="color-contrast"))
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        page.evaluate("document.querySelector('h1').style.color = '#222'")
        assert serious_violations(page, only="color-contrast")


def test_the_first_page_weighs_less_than_300_kilobytes(filled: Scene, browser: Browser) -> None:
    with page_of(browser) as page:
        sizes: list[int] = []
        page.on("response", lambda answer: sizes.append(len(answer.body())))
        page.goto(filled.page(), wait_until="networkidle")
    assert sizes and sum(sizes) < 300_000
