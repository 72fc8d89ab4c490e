"""Expectations of flows and connectors: counted, dropped, quarantined, failed; late rows are counted, too."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.metrics import served_metrics
from headrace.pipelines.flows.progress import FAILED, read_progress
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of

_HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as f
from headrace.pipelines.decode import dead_letters, decode
from headrace.pipelines.expectations import expect, expect_or_drop, expect_or_fail, expect_or_quarantine
spark = SparkSession.active()
B = {"kafka.bootstrap.servers": spark.conf.get("headrace.bootstrap.servers")}
def topic(name):
    return (spark.readStream.format("headrace").options(**B).option("subscribe", name)
        .option("startingOffsets", "earliest").load())
"""
Made = Callable[[str, str], Any]


@pytest.fixture
def made(headrace: Cluster, tmp_path: Path) -> Made:
    def write(name: str, python: str) -> Any:
        folder = tmp_path / name
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        (folder / "spark-pipeline.yml").write_text(
            f'name: {name}\nstorage: storage\nconfiguration:\n  {BOOTSTRAP}: "{headrace.bootstrap}"\n'
            "libraries:\n  - glob:\n      include: transformations/**\n"
        )
        (folder / "transformations" / "flows.py").write_text(_HEAD + python)
        return load_spec(folder)

    return write


def run_once(spec: Any, spark: Any) -> PipelineRun:
    run = PipelineRun(spec, spark, report=lambda _: None, once=True)
    run.start()
    run.supervise()
    return run


def fill(headrace: Cluster, topic: str, *values: object) -> None:
    now = int(time.time() * 1000)
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    headrace.write(topic, [Record(None, text, timestamp_ms=now) for text in texts])


_ORDERS: list[object] = [
    {"id": "a", "amount": 5, "region": "north"},
    {"id": "b", "amount": -1, "region": "north"},
    {"id": "c", "amount": 7, "region": None},
    {"id": "d", "amount": None, "region": "south"},
    {"id": "e", "amount": 900, "region": "south"},
    b"not json",
]


def test_rules_count_drop_and_quarantine(spark: Any, headrace: Cluster, made: Made) -> None:
    orders, good = headrace.topic(), headrace.topic()
    headrace.client.create_topic(f"{orders}.dlq", 1)
    fill(headrace, orders, *_ORDERS)
    spec = made(
        "rules",
        f"""
dp.create_sink("good", "headrace", {{**B, "topic": "{good}"}})
dp.create_sink("bad", "headrace", B)
@dp.temporary_view
@expect_or_drop("positive", "amount >= 0")
@expect_or_quarantine("small", "amount IS NULL OR amount < 100")
@expect("region IS NOT NULL")
def orders():
    return decode(topic("{orders}"), "id string, amount bigint, region string")
@dp.append_flow(target="good")
def checked():
    return spark.readStream.table("orders").where("_error IS NULL").selectExpr("id AS value")
@dp.append_flow(target="bad")
def letters():
    return dead_letters(spark.readStream.table("orders"))
""",
    )
    run = run_once(spec, spark)
    assert set(values_of(headrace, good)) == {b"a", b"c"}
    assert set(values_of(headrace, f"{orders}.dlq")) == {b"not json", json.dumps(_ORDERS[4]).encode()}
    checked, letters = run.flows
    assert checked.rules() == {
        "orders.region IS NOT NULL": {"action": "warn", "checked": 5, "failed": 1},
        "orders.small": {"action": "quarantine", "checked": 5, "failed": 1},
        # A quarantined row is not checked again. Null is not >= 0.
        "orders.positive": {"action": "drop", "checked": 4, "failed": 2},
    }
    assert checked.totals() == {"flow": "checked", "read": 6, "written": 2, "dropped": 2, "dead letters": 0}
    assert letters.totals() == {"flow": "letters", "read": 6, "written": 0, "dropped": 0, "dead letters": 2}
    assert letters.rules() == {}
    assert read_progress(headrace.bootstrap)["rules.checked"]["rules"] == checked.rules()
    with served_metrics("127.0.0.1:0", lambda: run.flows) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    labels = 'action="drop",flow="checked",pipeline="rules",rule="orders.positive"'
    assert f"headrace_pipeline_rule_failed_total{{{labels}}} 2.0" in text
    assert 'headrace_pipeline_rows_read_total{flow="checked",pipeline="rules"} 6.0' in text


def test_failed_rule_stops_its_flow_and_the_others_finish(spark: Any, headrace: Cluster, made: Made) -> None:
    orders, good = headrace.topic(), headrace.topic()
    fill(headrace, orders, {"id": "a"}, {"id": None})
    spec = made(
        "strict",
        f"""
dp.create_sink("strict", "headrace", {{**B, "topic": "{good}-strict"}})
dp.create_sink("good", "headrace", {{**B, "topic": "{good}"}})
def orders():
    return decode(topic("{orders}"), "id string").where("_error IS NULL")
@dp.append_flow(target="strict")
@expect_or_fail("has_id", "id IS NOT NULL")
def strict():
    return orders().selectExpr("id", "id AS value")
@dp.append_flow(target="good")
def copied():
    return orders().selectExpr("coalesce(id, '-') AS value")
""",
    )
    run = PipelineRun(spec, spark, report=lambda _: None, once=True)
    run.start()
    with pytest.raises(PipelineError) as failure:
        run.supervise()
    assert str(failure.value).startswith(
        "flow 'strict' failed: expectation 'has_id' failed: id IS NOT NULL is not true"
    )
    assert set(values_of(headrace, good)) == {b"a", b"-"}
    states = {name: flow["state"] for name, flow in read_progress(headrace.bootstrap).items() if "strict" in name}
    assert states == {"strict.strict": FAILED, "strict.copied": "stopped"}


def test_connector_has_rules(spark: Any, headrace: Cluster, tmp_path: Path) -> None:
    source, target = headrace.topic(), headrace.topic()
    headrace.client.create_topic(f"{source}.dlq", 1)
    fill(headrace, source, b"good", b"", b"bad value", b"long " * 10)
    file = tmp_path / "c.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom: {{topic: {source}}}\n"
        "expect:\n  - {name: filled, check: length(value) > 0, else: drop}\n"
        "  - {check: \"value NOT LIKE 'bad%'\", else: quarantine}\n  - length(value) < 20\n"
        f"to: {{topic: {{name: {target}, value: value}}}}\n"
    )
    run = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
    run.start()
    run.supervise()
    assert set(values_of(headrace, target)) == {b"good", b"long " * 10}
    assert set(values_of(headrace, f"{source}.dlq")) == {b"bad value"}
    assert {name: rule["failed"] for name, rule in run.flows[0].rules().items()} == {
        "source.filled": 1,
        "source.value NOT LIKE 'bad%'": 1,
        "source.length(value) < 20": 1,
    }
    for wrong, words in (
        ("expect: [{check: a, els: drop}]", "'els' is unknown (did you mean \"else\"?)"),
        ("expect: [{check: a, else: dropp}]", "'dropp' is unknown (did you mean \"drop\"?)"),
        ("expect: [{name: a}]", '"check" must be a SQL expression'),
    ):
        file.write_text(f"from: {{topic: x}}\nto: console\n{wrong}\n")
        with pytest.raises(OptionError, match=r"c\.yml|expectation") as refusal:
            load_connector(file)
        assert words in str(refusal.value)


def test_rows_that_the_watermark_drops_are_counted(spark: Any, headrace: Cluster, made: Made) -> None:
    source, target = headrace.topic(), headrace.topic()
    noon = 1_700_000_000_000

    def write(*seconds: int) -> None:
        headrace.write(source, [Record(b"k", b"v", timestamp_ms=noon + 1000 * second) for second in seconds])

    spec = made(
        "late",
        f"""
dp.create_sink("out", "headrace", {{**B, "topic": "{target}"}})
@dp.append_flow(target="out")
def windows():
    counts = (topic("{source}").withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "10 seconds")).count())
    return counts.selectExpr("string(count) AS value")
""",
    )
    write(0, 1, 60)
    run_once(spec, spark)
    # In two windows: Spark combines the rows of a window before it drops them, and counts them as one.
    write(2, 13, 65)
    run = run_once(spec, spark)
    assert run.flows[0].totals()["dropped"] == 2
    assert read_progress(headrace.bootstrap)["late.windows"]["late_rows"] == 2
    # The window of the first two records, without the late ones.
    assert values_of(headrace, target) == {b"2": 1}
