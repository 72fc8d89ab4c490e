"""More scenarios in a real browser. Those that repeat a path of `test_browser` with other values run in the long
form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from headrace.console.core.masking import Mask
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.login import Brokers
from tests.console.browser import page_of
from tests.console.conftest import Scene
from tests.support.console import console_of
from tests.support.effort import is_long
from tests.support.names import unique

pytestmark = pytest.mark.needs("chromium")
long_form = pytest.mark.skipif(not is_long(), reason="long form: HEADRACE_EFFORT=long")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with page_of(browser) as opened:
        yield opened


def dead_letters(scene: Scene, count: int) -> tuple[str, str]:
    origin, letters = scene.topic(), scene.topic(name=unique("orders") + ".dlq")
    for n in range(count):
        notes = [("headrace.topic", origin.encode()), ("headrace.error", b"not JSON")]
        scene.produce(letters, (f"k{n}", f"value {n}"), headers=notes)
    return origin, letters


# Records


def test_all_dead_letters_of_a_page_go_back_to_their_topic(scene: Scene, page: Page) -> None:
    origin, letters = dead_letters(scene, 3)
    page.goto(scene.page(f"/topics/{letters}/messages"))
    page.get_by_label("Choose all records of this page").check()
    page.get_by_role("button", name="Send chosen records again").click()
    expect(page.locator(".consequences")).to_contain_text(f"3 records came from {origin}")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_have_text(f"Sent 3 records to {origin}.")
    page.goto(scene.page(f"/topics/{origin}/messages"))
    expect(page.locator(".messages tbody tr")).to_have_count(3)
    expect(page.locator(".messages tbody")).not_to_contain_text("headrace.error")


@long_form
def test_one_dead_letter_goes_to_another_topic(scene: Scene, page: Page) -> None:
    _, letters = dead_letters(scene, 2)
    target = scene.topic()
    page.goto(scene.page(f"/topics/{letters}/messages"))
    page.get_by_label("Choose offset 1 of partition 0").check()
    page.get_by_role("button", name="Send chosen records again").click()
    page.get_by_label("Topic").fill(target)
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_have_text(f"Sent 1 record to {target}.")


@long_form
def test_sending_nothing_is_explained(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.numbered(topic, 1)
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_role("button", name="Send chosen records again").click()
    expect(page.get_by_role("alert")).to_have_text("Choose at least one record")


def test_a_search_is_saved_used_and_deleted(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.numbered(topic, 20)
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_label("CEL expression").fill("value.n >= 18")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("#matches tbody tr")).to_have_count(2)
    page.get_by_text("Save this search").click()
    page.get_by_label("Name of the search").fill("the last ones")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="the last ones").click()
    expect(page.locator("#matches tbody tr")).to_have_count(2)
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_role("button", name="Delete the search the last ones").click()
    expect(page.get_by_role("status")).to_have_text("The search the last ones is deleted.")
    expect(page.get_by_role("link", name="the last ones")).to_have_count(0)


@pytest.mark.parametrize("form", ["NDJSON", *(("CSV", "Parquet") if is_long() else ())])
def test_records_are_exported(scene: Scene, page: Page, form: str) -> None:
    topic = scene.topic()
    scene.numbered(topic, 7)
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("link", name=form).click()
    assert found.value.suggested_filename == f"{topic}.{form.lower()}"
    data = Path(found.value.path()).read_bytes()
    assert data.startswith(b"PAR1") if form == "Parquet" else data.count(b"\n") in (7, 8)


@long_form
def test_a_record_leads_to_its_neighbours_and_bytes(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.numbered(topic, 3)
    page.goto(scene.page(f"/topics/{topic}/messages/0/1"))
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", name="Partition 0, offset 2")).to_be_visible()
    page.get_by_role("link", name="Previous").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="Download bytes").last.click()
    assert json.loads(Path(found.value.path()).read_bytes()) == {"n": 1}


@long_form
@pytest.mark.parametrize(("place", "value", "first"), [("offset", "40", "40"), ("oldest", "", "0")])
def test_messages_begin_where_a_person_says(scene: Scene, page: Page, place: str, value: str, first: str) -> None:
    topic = scene.topic()
    scene.numbered(topic, 60)
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.locator("select[name=from]").select_option(place)
    page.locator("input[name=offset]").fill(value)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".messages tbody tr").first.locator("td a")).to_have_text(first)


@long_form
def test_messages_of_one_partition_and_older_pages(scene: Scene, page: Page) -> None:
    topic = scene.topic(2)
    producer = Producer({"bootstrap.servers": scene.bootstrap})
    for n in range(120):
        producer.produce(topic, f"v{n}", partition=n % 2)
    assert producer.flush(30) == 0
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.locator("select[name=partition]").select_option("1")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("60 offsets in partition 1")).to_be_visible()
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".messages tbody tr")).to_have_count(10)
    page.get_by_role("link", name="Newest").click()
    expect(page.locator(".messages tbody tr")).to_have_count(50)


@long_form
@pytest.mark.parametrize(
    ("form", "typed", "shown"),
    [("text", "plain words", "plain words"), ("hex", "00 ff", "00 ff"), ("null", "", "tombstone")],
)
def test_a_record_is_produced_in_each_form(scene: Scene, page: Page, form: str, typed: str, shown: str) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}/produce"))
    page.get_by_label("Value as").select_option(form)
    page.get_by_label("Value", exact=True).fill(typed)
    page.get_by_label("Headers").fill("trace: 7")
    page.get_by_role("button", name="Send record").click()
    expect(page.get_by_role("status")).to_have_text(f"Sent a record to {topic}-0.")
    expect(page.locator(".messages tbody")).to_contain_text(shown)
    expect(page.locator(".messages tbody")).to_contain_text("trace: 7")


@long_form
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("cel=value.n+%3E", "The CEL expression cannot be read"),
        ("q=x&in=nowhere", "must be anywhere, key, value, header"),
    ],
)
def test_a_wrong_search_is_explained_in_the_page(scene: Scene, page: Page, query: str, problem: str) -> None:
    topic = scene.topic()
    page.goto(scene.page(f"/topics/{topic}/search?{query}"))
    expect(page.get_by_role("alert")).to_contain_text(problem)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


@long_form
def test_a_search_without_a_match_says_that_it_reached_the_end(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.numbered(topic, 30)
    page.goto(scene.page(f"/topics/{topic}/search?q=needle"))
    expect(page.get_by_text("The search reached the end.")).to_be_visible()
    expect(page.locator("#step")).to_contain_text("0 matches in 30 scanned records")


@long_form
def test_a_search_in_headers_only(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("red", "red"), headers=[("colour", b"blue")])
    scene.produce(topic, ("x", "y"), headers=[("colour", b"red")])
    page.goto(scene.page(f"/topics/{topic}/messages"))
    page.get_by_label("Search in records").fill("red")
    page.get_by_label("Where to search").select_option("header")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("#matches tbody tr")).to_have_count(1)
    expect(page.locator("#matches tbody")).to_contain_text("colour: red")


# SQL


def test_a_statement_is_run_from_its_example_and_drawn(scene: Scene, page: Page) -> None:
    topic = scene.topic(3, name=unique("aaa"))
    scene.produce(topic, *((f"k{n}", "v") for n in range(30)))
    page.goto(scene.page("/sql"))
    page.get_by_role("textbox", name="Statement").fill(
        f'SELECT "partition", count(*) AS n FROM "{topic}" GROUP BY ALL ORDER BY ALL'
    )
    page.get_by_role("textbox", name="Statement").press("Control+Enter", timeout=60_000)
    expect(page.get_by_role("region", name="Rows")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("list", name="n by partition")).to_be_visible()


@long_form
def test_a_wrong_statement_keeps_its_text(scene: Scene, page: Page) -> None:
    page.goto(scene.page("/sql?q=SELEC+1"))
    expect(page.get_by_role("alert")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("textbox", name="Statement")).to_have_text("SELEC 1")


# Topics


@long_form
def test_a_topic_is_created_with_settings(scene: Scene, page: Page) -> None:
    name = unique("made")
    page.goto(scene.page("/new-topic"))
    page.get_by_label("Name").fill(name)
    page.get_by_label("Partitions").fill("4")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("cleanup.policy").fill("compact")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("compact")
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(4)


@long_form
def test_a_name_that_exists_is_explained(scene: Scene, page: Page) -> None:
    name = scene.topic()
    page.goto(scene.page("/new-topic"))
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text(name)


@long_form
def test_internal_topics_are_shown_and_hidden(scene: Scene, page: Page) -> None:
    scene.commit(unique("group"), scene.topic(), 0)
    page.goto(scene.page("/topics?q=__consumer"))
    page.get_by_role("link", name="Show").first.click()
    expect(page.locator("table.rows .name")).to_have_text(["__consumer_offsets"])
    page.get_by_role("link", name="Hide").click()
    expect(page.locator("table.rows .name")).to_have_count(0)


@long_form
def test_all_keys_of_a_topic_are_shown_with_their_source(scene: Scene, page: Page) -> None:
    page.goto(scene.page(f"/topics/{scene.topic()}"))
    page.get_by_role("link", name="Show all keys").click()
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("segment.bytes")
    page.get_by_role("link", name="Only what is set for this topic").click()
    expect(page.get_by_text("All keys have the brokers' values.")).to_be_visible()


# Groups


@pytest.mark.parametrize(
    ("way", "value", "text"),
    [("shift", "-3", "reads 3 records again"), ("earliest", "", "reads 8 records again"), ("latest", "", "skips 2")][
        : 3 if is_long() else 1
    ],
)
def test_a_group_is_reset_in_other_ways(scene: Scene, page: Page, way: str, value: str, text: str) -> None:
    topic, group = scene.topic(), unique("moved")
    scene.numbered(topic, 10)
    scene.commit(group, topic, 8)
    page.goto(scene.page(f"/group/reset?id={group}"))
    page.get_by_label("Move to").select_option(way)
    page.get_by_label("Offset or shift").fill(value)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text(text)).to_be_visible()
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("status")).to_have_text(f"Moved {group} in 1 partition.")


@long_form
def test_one_partition_is_set_by_hand(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("by hand")
    scene.numbered(topic, 10)
    scene.commit(group, topic, 8)
    page.goto(scene.page(f"/group/reset?id={group.replace(' ', '+')}&way=earliest"))
    page.locator(".exact").fill("5")
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("region", name="Positions")).to_contain_text("5")


@long_form
def test_a_group_is_deleted(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("left")
    scene.commit(group, topic, 0)
    page.goto(scene.page(f"/group?id={group}"))
    page.get_by_role("link", name="Delete").click()
    expect(page.locator(".consequences")).to_contain_text("1 committed offset")
    page.get_by_role("button", name="Delete group").click()
    expect(page.get_by_role("status")).to_have_text(f"Group {group} is deleted.")


@long_form
def test_groups_are_chosen_by_their_state(scene: Scene, page: Page) -> None:
    group = unique("still")
    scene.commit(group, scene.topic(), 0)
    page.goto(scene.page(f"/groups?q={group}"))
    page.get_by_role("link", name="Empty").click()
    expect(page.get_by_role("link", name=group)).to_be_visible()


@long_form
@pytest.mark.parametrize("path", ["/group?id=absent", "/topics/absent", "/pipeline?name=absent", "/nowhere"])
def test_what_does_not_exist_is_named_and_the_navigation_stays(scene: Scene, page: Page, path: str) -> None:
    page.goto(scene.page(path))
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Topics").click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


# Flow, security, operations


def test_the_picture_of_the_flow_is_filtered_and_leads_to_its_parts(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("reader")
    scene.numbered(topic, 4)
    scene.commit(group, topic, 1)
    page.goto(scene.page(f"/flow?q={topic}"))
    expect(page.locator("svg.flow a")).to_have_count(2)
    page.locator("svg.flow a").filter(has_text=topic).click()
    expect(page.get_by_role("heading", name=topic)).to_be_visible()


def test_the_picture_of_the_flow_is_enlarged_and_saved(scene: Scene, page: Page) -> None:
    topic, group = scene.topic(), unique("reader")
    scene.commit(group, topic, 0)
    page.goto(scene.page(f"/flow?q={topic}"))
    width = page.locator("svg.flow").evaluate("one => one.getBoundingClientRect().width")
    page.get_by_role("link", name="200 %").click()
    expect(page.locator("svg.flow[width]")).to_be_visible()
    assert page.locator("svg.flow").evaluate("one => one.getBoundingClientRect().width") > width
    with page.expect_download() as found:
        page.get_by_role("link", name="Save as SVG").click()
    text = Path(found.value.path()).read_text()
    assert text.startswith("<svg") and group in text and "<style>" in text


@long_form
def test_a_principal_is_explained_without_an_authorizer(scene: Scene, page: Page) -> None:
    page.goto(scene.page("/security"))
    page.get_by_label("Principal").fill("User:ann")
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status")).to_contain_text("no authorizer")


@long_form
def test_the_configuration_of_a_broker_is_filtered(scene: Scene, page: Page) -> None:
    page.goto(scene.page("/operations"))
    page.get_by_role("link", name="Broker 0").click()
    page.get_by_label("Filter").first.fill("retention")
    page.keyboard.press("Enter")
    expect(page.locator("main table")).to_contain_text("log.retention.hours")


def test_an_open_transaction_is_aborted(scene: Scene, page: Page) -> None:
    topic, name = scene.topic(), unique("txn")
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never shown")
    producer.flush(30)
    page.goto(scene.page("/operations"))
    page.get_by_role("row", name=name).get_by_role("link").click()
    page.get_by_role("button", name="Abort transaction").click()
    expect(page.get_by_role("status")).to_have_text(f"The open transaction of {name} is aborted.")


# What a console may show, and on which screens


def test_masked_fields_are_not_in_the_page(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", json.dumps({"card": {"number": "4111"}, "total": 7})))
    settings = ConsoleSettings(
        (ClusterAddress("local", Brokers(scene.bootstrap)),), masks=(Mask.parse("*:card.number"),)
    )
    with console_of(settings) as url:
        page.goto(f"{url}/clusters/local/topics/{topic}/messages")
        expect(page.locator(".messages tbody")).to_contain_text("••••••")
        assert "4111" not in page.content()
        expect(page.get_by_role("button", name="Send chosen records again")).to_have_count(0)


@long_form
def test_hidden_values_are_not_in_the_page(scene: Scene, page: Page) -> None:
    topic = scene.topic()
    scene.produce(topic, ("secret key", "secret value"))
    settings = ConsoleSettings((ClusterAddress("local", Brokers(scene.bootstrap)),), hides_values=True)
    with console_of(settings) as url:
        page.goto(f"{url}/clusters/local/topics/{topic}/messages")
        expect(page.locator(".messages tbody tr")).to_have_count(1)
        assert "secret" not in page.content()
        page.goto(f"{url}/clusters/local/sql")
        expect(page.get_by_text("SQL would show them")).to_be_visible()


@long_form
@pytest.mark.parametrize("width", [390, 3840])
def test_pages_fit_on_a_phone_and_on_a_wide_screen(scene: Scene, browser: Browser, width: int) -> None:
    topic = scene.topic(name=unique("n" * 200))
    scene.produce(topic, ("k" * 500, "v" * 5000))
    with page_of(browser, width=width) as page:
        for path in ("", "/topics", f"/topics/{topic}/messages", "/groups", "/sql", "/operations", "/login"):
            page.goto(scene.page(path))
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@long_form
def test_a_dark_system_gets_dark_pages(scene: Scene, browser: Browser) -> None:
    with page_of(browser, theme="dark") as page:
        page.goto(scene.page("/sql"))
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert sum(int(part) for part in colour.strip("rgb()").split(",")) < 150


@long_form
def test_the_overview_refreshes_itself(scene: Scene, page: Page) -> None:
    page.goto(scene.page())
    before = page.locator(".stat", has_text="Topics").inner_text()
    scene.topic()
    expect(page.locator(".stat", has_text="Topics").first).not_to_have_text(before, timeout=60_000)
