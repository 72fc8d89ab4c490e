"""The picture of every demo can be drawn at any moment: before the first result, in the middle, at the end."""

from __future__ import annotations

import io
import random
from itertools import islice

import pytest
from rich.console import Console

from headrace.datagen.generator import Generator
from headrace.demos.catalogue import demos
from headrace.demos.history import History
from headrace.demos.picture import document
from headrace.demos.picture_text import rendered
from headrace.demos.screen import Screen
from headrace.demos.topics import Contents, Result
from headrace.records.builder import Record

# The generator does not fill their inputs, so the expected result is given here.
ELSEWHERE: dict[str, Result] = {
    "bank": {"1": ["ann", 500, 400, 1], "2": ["bob", 900, 100, 2]},
    "datacenters": {"east|order-1": 1, "west|order-1": 2},
    "ingestion": {"bronze": 3, "silver": 2, "batch|a": [2, 5, 3], "speed|a": [2, 5, 3], "speed|b": [1, 1, 1]},
    "recovery": {"order-1": [1, 119], "order-2": [2, 238], "orders in the topic": 3, "orders acknowledged": 2},
}
# Figures that `found` always has.
ALWAYS = ("audited", "pages", "bronze", "silver", "rows for analytics", "rows in the lake")


def expected(name: str) -> Result:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    demo = demos()[name]
    contents = Contents.__new__(Contents)
    contents.records = {topic.name: [] for topic in demo.plan.topics}
    contents._rows = {topic: [] for topic in contents.records}
    contents._latest = {topic: {} for topic in contents.records}
    for made in islice(Generator(demo.plan, start_ms=1_700_000_000_000), 400):
        contents._take(made.topic, [Record(made.key, made.value, made.headers, timestamp_ms=made.timestamp_ms)])
    return demo.check.expected(contents)


@pytest.mark.parametrize("name", demos())
def test_a_picture_can_be_drawn_at_any_moment(name: str) -> None:
    demo, whole = demos()[name], expected(name)
    assert whole
    console = Console(file=io.StringIO(), width=120)
    chance = random.Random(1)
    for share in (0.0, 0.3, 0.7, 1.0):
        found = {key: value for key, value in whole.items() if key in ALWAYS or chance.random() < share}
        history = History(demo.trend)
        history.note(found, 5)
        shown = history.added_to(demo.check.picture(found, 10))
        assert document(shown)
        console.print(rendered(shown))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
@pytest.mark.parametrize("name", demos())
def test_a_picture_fits_the_terminal(name: str, width: int, height: int) -> None:
    demo, whole = demos()[name], expected(name)
    console = Console(file=io.StringIO(), width=width, height=height)
    history = History(demo.trend)
    history.note(whole, 5)
    facts = {"sent": 4000, "lag": 5}
    shown = Screen(console, name, "127.0.0.1:9092").drawn(
        facts, "running", lambda rows: history.added_to(demo.check.picture(whole, rows))
    )
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) < height
    assert not [line for line in lines if "…" in line], "a column is cut"


def test_before_the_first_batch_the_headline_says_so() -> None:
    console = Console(file=io.StringIO(), width=100, height=24)
    screen = Screen(console, "cep", "127.0.0.1:9092")
    nothing = demos()["cep"].check.picture({}, 5)
    for lag, said in ((None, "sent 7  first batch of Spark …  Ctrl-C stops"), (0, "sent 7  lag 0  Ctrl-C stops")):
        console.print(screen.drawn({"sent": 7, "lag": lag}, "running", lambda rows: nothing))
        assert isinstance(console.file, io.StringIO) and said in console.file.getvalue()
