"""Stored values that try to become markup or script: pages show them as text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.console.browser import chromium, page_of
from tests.console.conftest import Scene
from tests.support.names import unique

pytestmark = pytest.mark.needs("chromium")

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</textarea></pre></script><script>alert(1)</script>",
    "{{ 7 * 191 }}${7*191}",
    "javascript:alert(1)",
    '" hx-get="/clusters" hx-trigger="load" x="',
    "<!--<td sse-connect=/x>",
)
ALL = " ".join(HOSTILE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def _show(browser: Browser, url: str, *texts: str) -> None:
    """Opens the page and checks that the texts are text: no element, attribute or script came of them."""
    with page_of(browser) as page:
        page.goto(url)
        body = page.locator("body")
        shown = body.inner_text() + " ".join(
            field.input_value() for field in page.locator("input, textarea").all() if field.is_visible()
        )
        for text in texts:
            assert text in shown, f"{text!r} is not shown on {url}"
        assert "1337" not in shown
        for made in ("img[src=x]", "svg[onload]", "[onerror]", "[hx-get='/clusters']", "[sse-connect='/x']"):
            assert page.locator(made).count() == 0, made
        assert page.locator("script:not([src])").count() == 0


@pytest.mark.parametrize("text", HOSTILE)
def test_keys_values_and_headers_are_text(scene: Scene, browser: Browser, text: str) -> None:
    topic = scene.topic()
    scene.produce(topic, (text, text), headers=[(text, text.encode())])
    for path in (f"/topics/{topic}/messages", f"/topics/{topic}/messages/0/0", f"/topics/{topic}/produce?copy=0:0"):
        _show(browser, scene.page(path), text)


def test_values_inside_json_are_text(scene: Scene, browser: Browser) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", json.dumps({name: name for name in HOSTILE})))
    _show(browser, scene.page(f"/topics/{topic}/messages/0/0"), "<script>alert(1)</script>")


def test_searches_and_filters_are_text(scene: Scene, browser: Browser) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", "v"))
    _show(browser, scene.page(f"/topics/{topic}/search?q={quote(ALL)}"), ALL)
    _show(browser, scene.page(f"/topics/{topic}/search?cel={quote(ALL)}"))
    _show(browser, scene.page(f"/topics?q={quote(ALL)}"), ALL)
    _show(browser, scene.page(f"/group?id={quote(ALL)}"))
    _show(browser, scene.page(f"/topics/{quote(ALL, safe='')}"))


def test_names_of_groups_and_clients_are_text(scene: Scene, browser: Browser) -> None:
    topic, group = scene.topic(), unique(ALL)
    scene.produce(topic, ("k", "v"))
    scene.commit(group, topic, 0)
    _show(browser, scene.page(f"/groups?q={quote(group)}"), group)
    _show(browser, scene.page(f"/topics/{topic}"), group)
    for path in ("/group", "/group/reset", "/group/delete"):
        _show(browser, scene.page(f"{path}?id={quote(group)}"), group)


def test_reports_of_pipelines_are_text(scene: Scene, browser: Browser) -> None:
    name = unique(ALL)
    report = {
        "pipeline": name,
        "flow": ALL,
        "state": ALL,
        "last_error": ALL,
        "host": ALL,
        "watermark": ALL,
        "batch_id": 0,
    }
    report |= {"at_ms": int(time.time() * 1000), "end_offsets": {ALL: {"0": 1}}}
    scene.produce("__pipelines", (name, json.dumps(report)))
    _show(browser, scene.page("/pipelines"), name)
    _show(browser, scene.page(f"/pipeline?name={quote(name)}"), name)
