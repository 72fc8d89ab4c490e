"""The editors of SQL and schemas: colours and completion in a browser, a plain text area without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import page_of
from tests.console.conftest import Scene
from tests.support.names import unique

pytestmark = pytest.mark.needs("chromium")


def test_the_sql_editor_colours_completes_and_runs_with_the_keyboard(scene: Scene, browser: Browser) -> None:
    topic = scene.topic(name=unique("edited").replace("-", "_"))
    scene.numbered(topic, 3)
    with page_of(browser) as page:
        page.goto(scene.page("/sql"))
        editor = page.get_by_role("textbox", name="Statement")
        editor.press_sequentially("select count(*) as n from edited")
        page.get_by_role("option", name=topic).click()
        expect(editor).to_have_text(f"select count(*) as n from {topic}")
        keyword = editor.locator("span", has_text="select").first
        plain = editor.locator(".cm-line").first
        colours = [one.evaluate("element => getComputedStyle(element).color") for one in (keyword, plain)]
        assert colours[0] != colours[1], "a keyword has a colour of its own, so the rules passed the content policy"
        editor.press("Control+Enter")
        expect(page.get_by_role("region", name="Rows")).to_contain_text("3")
        expect(page.get_by_role("textbox", name="Statement")).to_have_text(f"select count(*) as n from {topic}")


def test_without_javascript_a_statement_is_typed_into_a_text_area(scene: Scene, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(scene.page("/sql"))
    page.locator("textarea[name=q]").fill("SELECT 40 + 2 AS answer")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Rows")).to_contain_text("42")
    context.close()


def test_settings_are_found_by_a_part_of_their_name(scene: Scene, browser: Browser) -> None:
    topic = scene.topic()
    with page_of(browser) as page:
        page.goto(scene.page(f"/topics/{topic}/configure"))
        expect(page.get_by_label("retention.ms", exact=True)).to_be_visible()
        expect(page.get_by_text("7 d. The broker deletes")).to_be_visible()
        jitter = page.get_by_label("segment.jitter.ms")
        expect(jitter).to_be_hidden()
        page.keyboard.press("/")
        page.keyboard.type("jitter")
        expect(jitter).to_be_visible()
        expect(page.get_by_label("retention.ms", exact=True)).to_be_hidden()
        jitter.fill("1000")
        page.get_by_label("Filter settings").fill("")
        page.get_by_label("message.timestamp.type").select_option("LogAppendTime")
        page.get_by_role("button", name="Save changes").click()
        expect(page.get_by_role("status")).to_contain_text("segment.jitter.ms")
        expect(page.get_by_role("status")).to_contain_text("message.timestamp.type")


def test_a_time_is_typed_in_the_zone_of_the_viewer(scene: Scene, browser: Browser) -> None:
    topic = scene.topic()
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_label("Time (Asia/Tokyo)").fill("2026-01-31T12:00:00")
    page.get_by_role("button", name="Show", exact=True).click()
    assert "time=2026-01-31T03%3A00%3A00" in page.url, "the address has the time in UTC, so that others can use it"
    expect(page.get_by_label("Time (Asia/Tokyo)")).to_have_value(re.compile("^2026-01-31T12:00"))
    context.close()
