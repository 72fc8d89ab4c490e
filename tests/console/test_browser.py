"""Scenarios in a real browser, as a person does them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Browser, Page, expect

from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.testing import broker
from headrace.web.login import Brokers
from tests.console.browser import page_of
from tests.console.conftest import Scene
from tests.support.clock import wait_for
from tests.support.console import console_of, console_on
from tests.support.names import unique

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with page_of(browser) as opened:
        yield opened


def test_an_empty_cluster_says_how_to_make_a_topic(browser: Browser) -> None:
    with broker() as empty, console_on(empty.bootstrap) as url, page_of(browser) as page:
        page.goto(f"{url}/clusters/local/topics")
        expect(page.get_by_role("heading", name="No topics yet")).to_be_visible()
        page.get_by_role("link", name="Create a topic").click()
        page.get_by_label("Name").fill("first")
        page.get_by_role("button", name="Create topic").click()
        expect(page.get_by_role("heading", name="first")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Topic first is there.")
        page.goto(f"{url}/clusters/local/groups")
        expect(page.get_by_role("heading", name="No groups yet")).to_be_visible()
        page.goto(f"{url}/clusters/local/pipelines")
        expect(page.get_by_role("heading", name="No pipeline has reported yet")).to_be_visible()


def test_the_overview_leads_to_every_section(scene: Scene, page: Page) -> None:
    page.goto(scene.url)
    expect(page.get_by_text("The cluster is well.")).to_be_visible()
    for section in page.locator("nav.side a").all_inner_texts():
        page.get_by_role("navigation", name="Main").get_by_role("link", name=section, exact=True).click()
        expect(page.locator("nav.side a[aria-current=page]")).to_have_text(section)


def test_a_wrong_setting_of_a_new_topic_is_explained_and_the_form_keeps_its_values(scene: Scene, page: Page) -> None:
    name = unique("refused")
    page.goto(scene.page("/new-topic"))
    page.get_by_label("Name").fill(name)
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("retention.ms").fill("soon")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("retention.ms")
    expect(page.get_by_label("Name")).to_have_value(name)
    assert name not in scene.admin.list_topics(timeout=10).topics


def test_a_setting_is_changed_and_returned_to_its_default(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}"))
    page.get_by_role("link", name="Configure").click()
    page.get_by_label("retention.ms", exact=True).fill("3600000")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("3600000")
    page.get_by_role("link", name="Configure").click()
    page.get_by_label("Return to the brokers' value").check()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("All keys have the brokers' values.")).to_be_visible()


def test_a_topic_grows(scene: Scene, page: Page) -> None:
    topic = scene.topic(2)
    page.goto(scene.page(f"/topics/{topic}/grow"))
    expect(page.get_by_text("A topic cannot shrink again.")).to_be_visible()
    page.get_by_label("New number of partitions").fill("5")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_role("status")).to_have_text(f"{topic} has 5 partitions now.")


def test_a_topic_is_emptied_after_its_readers_were_named(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("reader")
    scene.numbered(topic, 12)
    scene.commit(group, topic, 3)
    page.goto(scene.page(f"/topics/{topic}"))
    page.get_by_role("link", name="Empty").click()
    expect(page.locator(".consequences")).to_contain_text("12 records")
    expect(page.locator(".consequences")).to_contain_text(group)
    page.get_by_role("button", name="Delete all records").click()
    page.goto(scene.page(f"/topics/{topic}/messages"))
    expect(page.get_by_role("heading", name="No records yet")).to_be_visible()


def test_a_topic_is_deleted_only_after_its_name_was_typed(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}/delete"))
    page.get_by_label(f"Type {topic} to confirm").fill("something else")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("alert")).to_contain_text("something else")
    assert topic in scene.admin.list_topics(timeout=10).topics
    page.goto(scene.page(f"/topics/{topic}/delete"))
    page.get_by_label(f"Type {topic} to confirm").fill(topic)
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("status")).to_have_text(f"Topic {topic} is deleted.")


def test_the_list_of_topics_is_filtered_ordered_and_shared_as_a_link(
    scene: Scene, page: Page, browser: Browser
) -> None:
    prefix = unique("shared")
    for name, partitions in (("a", 1), ("b", 3), ("c", 2)):
        scene.topic(partitions, name=f"{prefix}-{name}")
    page.goto(scene.page("/topics"))
    page.keyboard.press("/")
    page.keyboard.type(prefix)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Partitions").click()
    names = [f"{prefix}-{name}" for name in ("b", "c", "a")]
    expect(page.locator("table.rows .name")).to_have_text(names)
    with page_of(browser) as other:
        other.goto(page.url)
        expect(other.locator("table.rows .name")).to_have_text(names)


def test_keys_go_to_sections_rows_and_help(scene: Scene, page: Page) -> None:
    prefix = unique("keys")
    for name in ("a", "b"):
        scene.topic(name=f"{prefix}-{name}")
    page.goto(scene.page())
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(scene.page("/topics"))
    page.goto(scene.page(f"/topics?q={prefix}"))
    for key in ("j", "j", "k", "j"):
        page.keyboard.press(key)
    expect(page.locator("tr.chosen")).to_contain_text(f"{prefix}-b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"{prefix}-b")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")


def test_a_chosen_theme_stays(scene: Scene, page: Page) -> None:
    page.goto(scene.page())
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    page.goto(scene.page("/topics"))
    assert light != dark and page.evaluate(background) == dark


def test_times_are_in_the_zone_of_the_viewer_with_the_exact_one_on_hover(scene: Scene, browser: Browser) -> None:
    topic = scene.topic()
    scene.numbered(topic, 1)
    context = browser.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(scene.page(f"/topics/{topic}/messages"))
    shown = page.locator("time").first
    exact = str(shown.get_attribute("title"))
    minutes = (int(exact[11:13]) * 60 + int(exact[14:16]) + 330) % 1440
    expect(shown).to_contain_text(f"{minutes // 60:02}:{minutes % 60:02}")
    context.close()


def test_reading_works_without_javascript(scene: Scene, browser: Browser) -> None:
    topic, group = scene.topic(), unique("group")
    scene.numbered(topic, 120)
    scene.commit(group, topic, 5)
    with page_of(browser, scripts=False) as page:
        page.goto(scene.page(f"/topics?q={topic}"))
        page.get_by_role("link", name=topic).click()
        page.get_by_role("link", name="Messages").click()
        page.get_by_role("link", name="Older").click()
        expect(page.locator("table.messages tbody tr")).to_have_count(50)
        page.get_by_label("Search in records").fill('"n": 7')
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.get_by_text("The search reached the end.")).to_be_visible()
        expect(page.locator("#matches tbody tr")).to_have_count(11)
        page.goto(scene.page(f"/group?id={group}"))
        expect(page.get_by_role("region", name="Positions")).to_contain_text("115")


def test_a_record_is_opened_edited_and_sent_again(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("order-7", '{"total": "wrong"}'), headers=[("trace", b"abc")])
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_role("link", name="0", exact=True).click()
    page.get_by_role("link", name="Edit and resend").click()
    page.get_by_role("textbox", name="Value", exact=True).fill('{"total": 12.5}')
    page.get_by_role("button", name="Send record").click()
    expect(page.get_by_role("status")).to_have_text(f"Sent a record to {topic}-0.")
    first = page.locator("table.messages tbody tr").first
    expect(first).to_contain_text("12.5")
    expect(first).to_contain_text("order-7")
    expect(first).to_contain_text("trace: abc")


def test_a_dead_letter_goes_back_to_its_topic_without_the_notes_of_its_failure(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    letters = scene.topic(name=f"{topic}.dlq")
    notes = [("headrace.topic", topic.encode()), ("headrace.error", b"bad"), ("trace", b"t")]
    scene.produce(letters, ("k", "{broken"), headers=notes)
    page.goto(scene.page(f"/topics/{letters}/messages/0/0"))
    page.get_by_role("link", name="Edit and resend").click()
    expect(page.get_by_role("textbox", name="Topic", exact=True)).to_have_value(topic)
    expect(page.get_by_role("textbox", name="Headers")).to_have_value("trace: t")
    page.get_by_role("textbox", name="Value", exact=True).fill('{"fixed": true}')
    page.get_by_label("Value as").select_option("json")
    page.get_by_role("button", name="Send record").click()
    page.wait_for_url(f"**/topics/{topic}/messages?*")
    expect(page.locator("table.messages tbody")).to_contain_text("fixed")


@pytest.mark.parametrize(
    ("form", "value", "error"), [("json", "{no", "not JSON"), ("hex", "0g", "not hexadecimal"), ("text", "x", "")]
)
def test_the_produce_form_explains_a_wrong_value_and_keeps_it(
    scene: Scene, page: Page, form: str, value: str, error: str
) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}/produce"))
    page.get_by_role("textbox", name="Value", exact=True).fill(value)
    page.get_by_label("Value as").select_option(form)
    page.get_by_role("button", name="Send record").click()
    if error:
        expect(page.get_by_role("alert")).to_contain_text(error)
        expect(page.get_by_role("textbox", name="Value", exact=True)).to_have_value(value)
    else:
        expect(page.locator("table.messages tbody tr")).to_have_count(1)


def test_a_search_goes_on_by_itself_to_the_end(scene: Scene, page: Page) -> None:
    topic = scene.topic(2)
    scene.numbered(topic, 180)
    page.goto(scene.page(f"/topics/{topic}/search?q=n"))
    expect(page.get_by_text("The search reached the end.")).to_be_visible()
    expect(page.locator("#matches tbody tr")).to_have_count(180)


def test_a_paused_search_is_resumed_in_another_browser(scene: Scene, page: Page, browser: Browser) -> None:
    topic = scene.topic()
    scene.numbered(topic, 130)
    with page_of(browser, scripts=False) as first:
        first.goto(scene.page(f"/topics/{topic}/search?q=n"))
        link = str(first.get_by_role("link", name="Continue").get_attribute("href"))
    page.goto(scene.url + link)
    expect(page.get_by_text("The search reached the end.")).to_be_visible()
    expect(page.locator("#step")).to_contain_text("130 matches")
    expect(page.locator("#matches tbody tr")).to_have_count(80)


def test_a_live_tail_shows_new_records_and_pauses(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}/tail"))
    expect(page.get_by_text("following")).to_be_visible()
    scene.produce(topic, ("k", "arrived-1"))
    expect(page.locator("#tail")).to_contain_text("arrived-1")
    page.get_by_role("button", name="Pause").click()
    scene.produce(topic, ("k", "arrived-2"))
    page.get_by_role("button", name="Go on").click()
    scene.produce(topic, ("k", "arrived-3"))
    expect(page.locator("#tail")).to_contain_text("arrived-3")


def test_a_busy_live_tail_stays_responsive(scene: Scene, page: Page) -> None:
    topic = scene.topic(3)
    page.goto(scene.page(f"/topics/{topic}/tail"))
    expect(page.get_by_text("following")).to_be_visible()
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            scene.produce(topic, *((str(n), "x" * 100) for n in range(2500)))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        expect(page.locator("#tail tr.left-out").first).to_be_visible()
        for _ in range(5):  # the page answers while thousands of records arrive
            page.get_by_role("button", name="Keyboard shortcuts").click()
            page.get_by_role("button", name="Close").click()
        assert page.locator("#tail tr").count() <= 330
    finally:
        stop.set()
        thread.join()


def test_a_group_is_reset_with_a_preview(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("to reset")
    scene.numbered(topic, 10)
    scene.commit(group, topic, 8)
    page.goto(scene.page(f"/groups?q={group.replace(' ', '+')}"))
    page.get_by_role("link", name=group).click()
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Move to").select_option("offset")
    page.get_by_label("Offset or shift").fill("2")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("reads 6 records again and skips 0")).to_be_visible()
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("region", name="Positions")).to_contain_text("2")
    expect(page.locator(".stat").first).to_contain_text("8")


def test_a_running_group_offers_no_reset(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("running")
    scene.numbered(topic, 2)
    consumer = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(1) is not None, "the consumer to read")
    page.goto(scene.page(f"/group?id={group}"))
    expect(page.get_by_text("Stable")).to_be_visible()
    expect(page.get_by_role("link", name="Reset offsets")).to_have_count(0)
    consumer.close()


def test_a_read_only_console_offers_and_accepts_no_change(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    with console_of(ConsoleSettings((ClusterAddress("local", Brokers(scene.bootstrap)),), read_only=True)) as url:
        page.goto(f"{url}/clusters/local/topics/{topic}")
        expect(page.get_by_text("read-only")).to_be_visible()
        for name in ("Configure", "Add partitions", "Empty", "Delete"):
            expect(page.get_by_role("link", name=name)).to_have_count(0)
        page.goto(f"{url}/clusters/local/topics/{topic}/empty")
        page.get_by_role("button", name="Delete all records").click()
        expect(page.get_by_role("alert")).to_contain_text("read-only")


def test_another_cluster_is_one_click_away_on_every_page(scene: Scene, page: Page) -> None:
    with broker() as other:
        clusters = (
            ClusterAddress("first", Brokers(scene.bootstrap)),
            ClusterAddress("second", Brokers(other.bootstrap)),
        )
        with console_of(ConsoleSettings(clusters)) as url:
            page.goto(f"{url}/clusters/first/topics")
            page.locator("details.switch summary").click()
            page.get_by_role("link", name="second").click()
            expect(page.get_by_role("heading", name="No topics yet")).to_be_visible()


def test_a_broker_that_goes_away_while_watching_is_reported(page: Page) -> None:
    with broker() as first, console_on(first.bootstrap) as url:
        page.goto(f"{url}/clusters/local")
        expect(page.get_by_text("The cluster is well.")).to_be_visible()
        first.stop()
        answer = page.request.get(f"{url}/clusters/local/topics")
        assert answer.status == 503 and "does not answer" in answer.text()
