"""Stored values that try to become markup or script: pages show them as text."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import page_of
from tests.console.conftest import Scene
from tests.support.effort import is_long
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


# One question to the page: what it shows with the texts of its inputs, and the elements that must not be there.
_LOOK = """made => [
    document.body.innerText + " " + [...document.querySelectorAll("input, textarea")]
        .filter(one => one.offsetParent !== null).map(one => one.value).join(" "),
    made.filter(one => document.querySelector(one)),
]"""
_MADE = [
    "img[src=x]", "svg[onload]", "[onerror]", "[hx-get='/clusters']", "[sse-connect='/x']", "script:not([src])",
]  # fmt: skip


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with page_of(browser) as opened:
        yield opened


def _show(page: Page, url: str, *texts: str) -> None:
    """Opens the page and checks that the texts are text: no element, attribute or script came of them."""
    page.goto(url)
    shown, made = page.evaluate(_LOOK, _MADE)
    for text in texts:
        assert text in shown, f"{text!r} is not shown on {url}"
    assert "1337" not in shown and made == []


def test_keys_values_and_headers_are_text(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    for text in HOSTILE:
        scene.produce(topic, (text, text), headers=[(text, text.encode())])
    _show(page, scene.page(f"/topics/{topic}/messages"), *HOSTILE)
    # One by one with the long effort: a list of all shows what each of them does.
    for offset, text in enumerate(HOSTILE if is_long() else ()):
        _show(page, scene.page(f"/topics/{topic}/messages/0/{offset}"), text)
        _show(page, scene.page(f"/topics/{topic}/produce?copy=0:{offset}"), text)
    together = scene.topic()
    scene.produce(together, (ALL, ALL), headers=[(ALL, ALL.encode())])
    for path in (f"/topics/{together}/messages/0/0", f"/topics/{together}/produce?copy=0:0"):
        _show(page, scene.page(path), ALL)


def test_values_inside_json_are_text(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", json.dumps({name: name for name in HOSTILE})))
    _show(page, scene.page(f"/topics/{topic}/messages/0/0"), "<script>alert(1)</script>")


def test_searches_and_filters_are_text(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", "v"))
    _show(page, scene.page(f"/topics/{topic}/search?q={quote(ALL)}"), ALL)
    _show(page, scene.page(f"/topics/{topic}/search?cel={quote(ALL)}"))
    _show(page, scene.page(f"/topics?q={quote(ALL)}"), ALL)
    _show(page, scene.page(f"/group?id={quote(ALL)}"))
    _show(page, scene.page(f"/topics/{quote(ALL, safe='')}"))


def test_names_of_groups_and_clients_are_text(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique(ALL)
    scene.produce(topic, ("k", "v"))
    scene.commit(group, topic, 0)
    _show(page, scene.page(f"/groups?q={quote(group)}"), group)
    _show(page, scene.page(f"/topics/{topic}"), group)
    for path in ("/group", "/group/reset", "/group/delete"):
        _show(page, scene.page(f"{path}?id={quote(group)}"), group)


def test_reports_of_pipelines_are_text(scene: Scene, page: Page) -> None:
    name, topic = unique(ALL), scene.topic()
    report = {
        "pipeline": name,
        "flow": ALL,
        "state": ALL,
        "last_error": ALL,
        "host": ALL,
        "watermark": ALL,
        "batch_id": 0,
    }
    report |= {"at_ms": int(time.time() * 1000), "end_offsets": {ALL: {"0": 1}, topic: {"0": 1}}, "plan": ALL}
    report |= {"target": {"kind": ALL, "name": ALL}, "origins": [{"kind": ALL, "name": ALL}], "run": "r"}
    report |= {"command": {"id": ALL, "action": ALL, "by": ALL, "state": ALL, "message": ALL}, "heartbeat_ms": 600_000}
    scene.produce("__pipelines", (name, json.dumps(report | {"durations_ms": {ALL: 3}})))
    _show(page, scene.page("/pipelines"), name)
    _show(page, scene.page(f"/pipeline?name={quote(name)}"), name)
    _show(page, scene.page(f"/pipeline/stop?name={quote(name)}"), name)
    _show(page, scene.page(f"/pipeline/replay?name={quote(name)}&way=earliest"), name)
    _show(page, scene.page(f"/flow?q={topic}"))
    picture = scene.page(f"/flow?q={topic}&format=svg")
    with urllib.request.urlopen(picture, timeout=30) as answer:
        drawn = answer.read().decode()
    assert "<script" not in drawn and "onload=" not in drawn.replace("&lt;svg onload=", "")
