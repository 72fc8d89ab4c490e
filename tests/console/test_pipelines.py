"""Spark flows as they report to the topic `__pipelines`."""

from __future__ import annotations

import json
import time

from confluent_kafka import Producer

from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.clock import wait_for
from tests.support.names import unique


def _report(scene: Scene, flow: str, **fields: object) -> None:
    base = {"pipeline": "shop", "flow": flow, "state": "running", "batch_id": 1, "at_ms": int(time.time() * 1000)}
    scene.produce("__pipelines", (f"shop.{flow}", json.dumps({**base, **fields})))


def test_flows_are_listed_the_failed_one_first(scene: Scene) -> None:
    fine, broken = unique("a-fine"), unique("z-broken")
    _report(scene, fine, lag=50, processed_rows_per_second=10.0, batch_ms=120)
    _report(scene, broken, state="failed", last_error="AnalysisException: no column x\n  at line 7", restarts=3)
    rows = fetch_json(scene.page("/pipelines"))["flows"]
    mine = [row for row in rows if row["flow"] in (fine, broken)]
    assert [(row["flow"], row["state"]) for row in mine] == [(broken, "failed"), (fine, "running")]
    assert mine[0]["error"] == "AnalysisException: no column x" and mine[0]["restarts"] == 3
    assert (mine[1]["lag"], mine[1]["behind_s"]) == (50, 5.0)


def test_a_running_flow_that_stopped_reporting_is_silent(scene: Scene) -> None:
    name = unique("lost")
    _report(scene, name, at_ms=int(time.time() * 1000) - 3_600_000)
    assert (
        next(row for row in fetch_json(scene.page("/pipelines"))["flows"] if row["flow"] == name)["state"] == "silent"
    )


def test_a_flow_has_its_history_offsets_and_dead_letters(scene: Scene) -> None:
    name, topic = unique("history"), scene.topic()
    scene.topic(name=f"{topic}.dlq")
    for n in range(3):
        _report(scene, name, batch_id=n, lag=10 - n, end_offsets={topic: {"0": n}}, state_rows=n)
    found = fetch_json(scene.page(f"/pipeline?name=shop.{name}"))
    lag = next(chart for chart in found["charts"] if chart["label"] == "Lag")
    assert lag["data"]["values"] == [10, 9, 8]
    assert found["offsets"] == [[topic, 0, 2]] and found["dead_letters"] == [f"{topic}.dlq"]
    assert status_of(scene.page(f"/pipeline?name=shop.{name}"))[0] == 200


def test_before_the_first_batch_a_flow_has_no_numbers(scene: Scene) -> None:
    name = unique("new")
    _report(scene, name, batch_id=-1, lag=None)
    row = next(row for row in fetch_json(scene.page("/pipelines"))["flows"] if row["flow"] == name)
    assert row["lag"] is None and row["behind_s"] is None


def test_records_that_are_no_reports_do_not_break_the_page(scene: Scene) -> None:
    scene.produce(
        "__pipelines", ("x", "not json"), ("y", "[1]"), (b"\xff", b"\xfe"), ("z", None), ("w", '{"lag": "x"}')
    )
    assert status_of(scene.page("/pipelines"))[0] == 200
    assert status_of(scene.page("/pipeline?name=absent"))[0] == 404


def test_the_picture_of_the_flow_links_topics_with_their_readers(scene: Scene) -> None:
    topic, group, name = scene.topic(), unique("drawn"), unique("drawn-flow")
    scene.numbered(topic, 2)
    scene.commit(group, topic, 1)
    _report(scene, name, end_offsets={topic: {"0": 2}})
    edges = fetch_json(scene.page(f"/flow?q={topic}"))["picture"]["edges"]
    assert {(edge["source"]["name"], edge["target"]["kind"], edge["target"]["name"]) for edge in edges} == {
        (topic, "group", group), (topic, "flow", f"shop.{name}"),
    }  # fmt: skip
    assert topic in status_of(scene.page(f"/flow?q={topic}"))[1]


def test_the_picture_goes_from_producers_to_targets_with_rates(scene: Scene) -> None:
    topic, written, name, transactional = scene.topic(), scene.topic(), unique("totals"), unique("shop-tx")
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": transactional})
    producer.init_transactions(10)

    def write() -> None:
        producer.begin_transaction()
        for n in range(5):
            producer.produce(topic, str(n))
        producer.commit_transaction(10)

    write()
    now_ms = int(time.time() * 1000)
    for n in range(2):
        _report(
            scene, name, at_ms=now_ms - (1 - n) * 10_000, end_offsets={topic: {"0": 5}}, written_rows=n * 200,
            input_rows_per_second=25.0, target={"kind": "topic", "name": written},
        )  # fmt: skip
    table = unique("table")
    _report(
        scene, table, end_offsets={written: {"0": 0}}, target={"kind": "jdbc", "name": "public.sales"},
        origins=[{"kind": "cdc", "name": "shop.customers"}],
    )  # fmt: skip

    def edges(text: str = topic) -> dict[tuple[str, str], float | None]:
        found = fetch_json(scene.page(f"/flow?q={text}"))["picture"]["edges"]
        return {(edge["source"]["name"], edge["target"]["name"]): edge["rate"] for edge in found}

    found = edges()
    assert found[topic, f"shop.{name}"] == 25.0 and found[f"shop.{name}", written] == 20.0
    assert (written, f"shop.{table}") in found and (f"shop.{table}", "jdbc public.sales") in found
    assert ("cdc shop.customers", f"shop.{table}") in edges(table) and (transactional, topic) in found
    text = status_of(scene.page(f"/flow?q={topic}"))[1]
    assert "25/s" in text and "jdbc public.sales" in text

    def rate() -> float | None:
        write()
        return edges()[transactional, topic]

    wait_for(lambda: (rate() or 0.0) > 0, "the rate of the producer by its sequence numbers")
