"""`headrace top` on a terminal of 80 columns and 24 lines, driven by its keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from headrace.cli.top.screen import TopScreen
from headrace.cli.top.snapshot import Watch
from headrace.cli.top.tables import Cell, Row, ordered
from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Run
from tests.support.clock import wait_on_loop

LONG = "a-topic-with-a-name-that-does-not-fit-into-the-column-of-a-narrow-terminal"


@pytest.fixture(scope="module")
def filled() -> Iterator[RunningBroker]:
    with broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 3, 1), NewTopic(LONG, 1, 1)]).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for n in range(30):
            producer.produce("orders", b"value", partition=n % 3)
        report = {"pipeline": "shop", "flow": "totals", "state": "failed", "last_error": "AnalysisException: no column",
                  "end_offsets": {"orders": {"0": 7}}, "batch_id": 2, "at_ms": 1}  # fmt: skip
        producer.produce("__pipelines", json.dumps(report), "shop.totals")
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()
        yield running


def lines(app: TopScreen) -> list[str]:
    """The cells of the table, each row as one text."""
    table = app.query_one(DataTable)
    return ["|".join(str(cell) for cell in table.get_row_at(at)) for at in range(table.row_count)]


def drive(running: RunningBroker, steps: Callable[[TopScreen, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = TopScreen(Watch(running.bootstrap, None, 30), 0.2)
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_on_loop(lambda: bool(lines(app)), "the first table")
            await steps(app, pilot)

    asyncio.run(run())


async def shown(app: TopScreen, text: str) -> str:
    def found() -> str:
        return next((line for line in lines(app) if text in line), "")

    return await wait_on_loop(found, f"a row with {text}")


def test_tables_filter_order_and_details(filled: RunningBroker) -> None:
    async def steps(app: TopScreen, pilot: Pilot[None]) -> None:
        row = await shown(app, "orders")
        assert row.split("|")[:3] == ["orders", "3", "30"]
        assert (await shown(app, "a-topic")).split("|")[0].endswith("…"), "a name that does not fit is marked as cut"
        await pilot.press("slash", *"orders", "enter")
        assert all("orders" in line for line in lines(app))
        await pilot.press("enter")
        await shown(app, "0|0|0|0|0|10")
        assert "read by billing" in str(app.query_one("#note", Static).render())
        await pilot.press("escape", "3")
        assert (await shown(app, "billing")).split("|")[1:4] == ["Empty", "1", "26"]
        await pilot.press("enter")
        rows = [(await shown(app, f"orders|{n}|")).split("|")[2:5] for n in range(3)]
        assert rows == [["4", "10", "6"], ["–", "10", "10"], ["–", "10", "10"]], "unread partitions count as lag"
        await pilot.press("escape", "4")
        assert "failed" in await shown(app, "shop.totals")
        await pilot.press("enter")
        await shown(app, "orders|0|7")
        assert "AnalysisException" in str(app.query_one("#note", Static).render())
        await pilot.press("escape", "1")
        assert "controller" in await shown(app, filled.bootstrap)

    drive(filled, steps)


def test_no_line_is_wider_than_the_terminal(filled: RunningBroker) -> None:
    async def steps(app: TopScreen, pilot: Pilot[None]) -> None:
        for key in "1234":
            await pilot.press(key)
            table = app.query_one(DataTable)
            await wait_on_loop(lambda: table.virtual_size.width <= 80, f"table {key} to fit")  # noqa: B023
            assert table.virtual_size.width <= 80

    drive(filled, steps)


def test_order_and_internal_topics(filled: RunningBroker) -> None:
    async def steps(app: TopScreen, pilot: Pilot[None]) -> None:
        await shown(app, "orders")
        assert not [line for line in lines(app) if "__consumer_offsets" in line]
        await pilot.press("i")
        await shown(app, "__consumer_offsets")
        for _ in range(3):  # from records a second over groups and health to the name
            await pilot.press("s")
        names = [line.split("|")[0] for line in lines(app)]
        assert names == sorted(names)
        await pilot.press("r")
        assert [line.split("|")[0] for line in lines(app)] == sorted(names, reverse=True)

    drive(filled, steps)


def test_a_cluster_that_goes_away_is_reported_and_the_last_numbers_stay() -> None:
    async def run() -> None:
        with broker() as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
            app = TopScreen(Watch(running.bootstrap, None, 1), 0.2)
            async with app.run_test(size=(80, 24)):
                await wait_on_loop(lambda: bool(lines(app)), "the first table")
                await asyncio.to_thread(running.stop)
                head = app.query_one("#head", Static)
                await wait_on_loop(lambda: "no answer for" in str(head.render()), "the head to report it")
                assert lines(app)

    asyncio.run(run())


def test_an_unknown_number_comes_last_in_every_order() -> None:
    rows = [Row(name, (Cell("", value),)) for name, value in (("a", None), ("b", 2), ("c", 1))]
    assert [row.name for row in ordered(rows, 0, descending=False)] == ["c", "b", "a"]
    assert [row.name for row in ordered(rows, 0, descending=True)] == ["b", "c", "a"]


def test_without_a_terminal_it_names_the_commands_for_programs(headrace: Run) -> None:
    ran = headrace("top")
    assert ran.code == 1 and "needs a terminal" in ran.err and "groups lag -o json" in ran.err
