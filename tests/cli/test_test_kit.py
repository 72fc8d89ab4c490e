"""`headrace snapshot` and `headrace chaos`, as a person runs them."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.testing import assert_records, broker
from tests.cli.conftest import Run

PROGRAM = """
import os
from confluent_kafka import Consumer, Producer
brokers = {"bootstrap.servers": os.environ["HEADRACE_BOOTSTRAP"], "log_level": 0}
consumer = Consumer({**brokers, "group.id": "copy", "auto.offset.reset": "earliest"})
producer = Producer(brokers)
consumer.subscribe([os.environ["HEADRACE_INPUT"]])
while True:
    message = consumer.poll(0.5)
    if message is not None and not message.error():
        producer.produce(os.environ["HEADRACE_OUTPUT"], message.value(), message.key())
        producer.poll(0)
"""


def test_a_snapshot_is_saved_and_loaded(headrace: Run, tmp_path: Path) -> None:
    with broker(data_dir=tmp_path / "data") as running:
        running.create_topic("orders")
        assert headrace("produce", "orders", "tea", "-b", running.bootstrap).code == 0
        busy = headrace("snapshot", "save", "data", "orders.snapshot")
        assert busy.code == 1 and "is in use by" in busy.err
    saved = headrace("snapshot", "save", "data", "orders.snapshot")
    assert saved.code == 0 and saved.out.startswith("saved 1 topic in"), saved.err
    loaded = headrace("snapshot", "load", "orders.snapshot", "copy", "-o", "json")
    assert loaded.code == 0 and loaded.json["topics"] == ["orders"] and loaded.json["done"] is True
    again = headrace("snapshot", "load", "orders.snapshot", "copy")
    assert again.code == 1 and "copy is not empty: name a new directory" in again.err
    with broker(data_dir=tmp_path / "copy") as running:
        assert_records(running, "orders", ["tea"])


def test_a_plan_is_run_and_its_report_written(headrace: Run, tmp_path: Path) -> None:
    (tmp_path / "copier.py").write_text(PROGRAM)
    plan = f"application: {sys.executable} copier.py\ninput: orders\noutput: copies\nbrokers: 1\nduration: 1s\n"
    (tmp_path / "plan.yml").write_text(plan)
    ran = headrace("chaos", "run", "plan.yml", "--report", "chaos.html")
    assert ran.code == 0 and ran.out.startswith("no anomalies (exactly-once): "), ran.out + ran.err
    assert "<svg" in (tmp_path / "chaos.html").read_text()
    (tmp_path / "copier.py").write_text("pass")
    (tmp_path / "plan.yml").write_text(plan + "settle: 1s\n")
    lost = headrace("chaos", "run", "plan.yml", "-o", "json")
    assert lost.code == 1 and lost.json["anomalies"]["acked_lost"] == lost.json["written"] > 0
