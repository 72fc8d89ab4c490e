"""An application under a fault plan: processes, brokers, and a report of what the program did wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.chaos import PlanError, Report, load_plan, plan_of, run_plan
from headrace.testing.chaos.fault_steps import moments

PYTHONS = [sys.executable, "app.py"]
# It joins its group at once after a kill, because it is a static member.
EXACTLY_ONCE = """
import os
import headrace
from headrace.api.cluster import Cluster
settings = {"log_level": 0, "group.instance.id": "one", "retry.backoff.ms": 20}
cluster = headrace.connect(os.environ["HEADRACE_BOOTSTRAP"], settings=settings)
source, target = cluster.topic(os.environ["HEADRACE_INPUT"], bytes), cluster.topic(os.environ["HEADRACE_OUTPUT"], bytes)
with (
    cluster.transactions("copy") as transactions,
    source.read(group=os.environ["HEADRACE_GROUP"], guarantee="exactly-once") as reader,
):
    for batch in reader.batches():
        with transactions.begin(reader) as transaction:
            for record in batch:
                transaction.send(target, record.value, key=record.key)
                reader.done(record)
"""
# It loses, doubles and swaps one record each, and commits nothing.
WRONG = """
import os, re
from confluent_kafka import Consumer, Producer
brokers = {"bootstrap.servers": os.environ["HEADRACE_BOOTSTRAP"], "log_level": 0}
settings = {"group.id": os.environ["HEADRACE_GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}
consumer, producer = Consumer({**brokers, **settings}), Producer(brokers)
consumer.subscribe([os.environ["HEADRACE_INPUT"]])
kept = None
while True:
    message = consumer.poll(0.5)
    if message is None or message.error():
        continue
    who = re.search(rb"k\\d+-\\d+", message.value())[0]
    copies = {b"k00-3": 0, b"k01-3": 2}.get(who, 1)
    if who == b"k02-3":
        kept, copies = message.value(), 0
    for _ in range(copies):
        producer.produce(os.environ["HEADRACE_OUTPUT"], message.value(), message.key(), partition=0)
    if who == b"k02-4":
        producer.produce(os.environ["HEADRACE_OUTPUT"], kept, message.key(), partition=0)
    producer.flush()
"""
PLAN = {"application": PYTHONS, "input": "orders", "output": "copies", "group": "copy"}


def run(tmp_path: Path, program: str, **more: Any) -> Report:
    (tmp_path / "app.py").write_text(program)
    return run_plan(plan_of({**PLAN, **more}, tmp_path))


def test_a_correct_application_keeps_its_guarantee_under_kills(tmp_path: Path) -> None:
    faults = [
        {"at": "1s", "kill": "application"},
        {"at": "1500ms", "fail": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2},
        {"at": "2s", "kill": "broker 2", "for": "500ms"},
        {"at": "3s", "pause": "application", "for": "300ms"},
    ]
    # If broker 2 coordinates the group, librdkafka may wait for it without end: after 30 s the application fails and
    # is started again (tests/unit/api/test_lost_coordinator.py).
    report = run(tmp_path, EXACTLY_ONCE, duration="4s", rate=100, faults=faults, settle="60s")
    assert report.is_clean, report
    assert [step.label for step in report.steps] == [
        "kill application", "fail Produce", "kill broker 2", "pause application"
    ]  # fmt: skip
    assert not any("not work" in step.note for step in report.steps), report.steps
    assert report.starts == 2 + report.crashes and len(report.acked_at) > 300
    report.write_html(tmp_path / "chaos.html")
    page = (tmp_path / "chaos.html").read_text()
    assert "no anomalies" in page and "<svg" in page and "kill broker 2" in page


def test_no_record_is_acknowledged_while_the_disk_is_full(tmp_path: Path) -> None:
    faults = [{"at": "500ms", "disk_full": "broker", "for": "1s"}]
    report = run(tmp_path, EXACTLY_ONCE, duration="2s", rate=100, brokers=1, faults=faults, settle="60s")
    assert report.is_clean, report
    (step,) = report.steps
    assert step.label == "disk full on broker 1" and not step.note
    # An answer may be on its way when the disk becomes full.
    late = [at for at in report.acked_at.values() if step.began_s + 0.3 < at < step.began_s + 1]
    assert late == [], f"{len(late)} records were acknowledged on a full disk"
    assert max(report.acked_at.values()) > step.ended_s, "the disk has room again"


def test_a_wrong_application_is_found_out(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"duration": "1s", "rate": 200, "settle": "3s", "brokers": 1}
    report = run(tmp_path, WRONG, **wrong)
    assert not report.is_clean
    written = len(report.acked_at)
    assert report.counts == {"acked_lost": 1, "doubled": 1, "disordered": 1, "undelivered": written}, report
    text = str(report)
    assert "k00 number 3" in text and "k01 number 3" in text and "k02 number 3" in text
    assert "lost: acknowledged to the writer" in text and "unread: the group did not commit" in text
    report.write_html(tmp_path / "chaos.html")
    assert "anomalies found" in (tmp_path / "chaos.html").read_text()


def test_an_application_that_ends_is_started_again_and_named(tmp_path: Path) -> None:
    report = run(tmp_path, "raise SystemExit('no config')", duration="1s", settle="1s", brokers=1, rate=20)
    assert report.crashes >= 2 and not report.is_clean
    assert "ended by itself" in str(report) and "no config" in str(report)


def test_a_seed_repeats_the_moments_of_faults() -> None:
    faults = [{"every": "2s", "kill": "application"}, {"at": "5s", "cut": [1, 3]}]
    first = moments(plan_of({**PLAN, "faults": faults, "seed": 7}))
    assert first == moments(plan_of({**PLAN, "faults": faults, "seed": 7}))
    assert first != moments(plan_of({**PLAN, "faults": faults, "seed": 8}))
    assert 8 <= len(first) <= 11 and all(at < 20 for at, _ in first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"application": ""}, "name the command"),
        ({"input": None}, "input: is missing"),
        ({"output": None, "group": None}, "needs output="),
        ({"output": "orders"}, "must be another topic"),
        ({"speed": 5}, "unknown key 'speed'"),
        ({"rate": "fast"}, "rate='fast'"),
        ({"duration": "soon"}, "duration='soon'"),
        ({"value": "tea"}, "must contain {id}"),
        ({"guarantee": "twice"}, "guarantee='twice'"),
        ({"faults": "kill"}, "must be a list"),
        ({"faults": ["kill"]}, r"faults\[1\]='kill'"),
        ({"faults": [{"at": 1}]}, "exactly one of kill"),
        ({"faults": [{"kill": "application"}]}, "either at or every"),
        ({"faults": [{"at": 1, "kill": "everyone"}]}, "write application, broker or broker 2"),
        ({"faults": [{"at": 1, "kill": "broker 4"}]}, "brokers 1 to 3"),
        ({"faults": [{"at": 1, "cut": [1]}]}, "two brokers such as"),
        ({"faults": [{"at": 1, "disk_full": "application"}]}, "write broker or broker 2"),
        ({"faults": [{"at": 1, "disk_full": "broker 4"}]}, r"disk_full=4: the cluster has the brokers 1 to 3"),
        ({"bootstrap": "staging:9092", "faults": [{"at": 1, "disk_full": "broker"}]}, "reached with run and then"),
        ({"faults": [{"at": 1, "fail": "Prodcue", "close": True}]}, "'Prodcue' is no API"),
        ({"faults": [{"at": 1, "fail": "Produce", "error": "OOPS"}]}, "'OOPS' is no error"),
        ({"bootstrap": "staging:9092", "faults": [{"at": 1, "kill": "broker"}]}, "reached with run and then"),
    ],
)
def test_a_wrong_plan_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan_of({**PLAN, **change})


def test_a_plan_file_is_named_in_its_errors(tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text("application: [")
    with pytest.raises(PlanError, match=r"plan\.yml is no YAML"):
        load_plan(tmp_path / "plan.yml")
    with pytest.raises(PlanError, match=r"nowhere\.yml cannot be read"):
        load_plan(tmp_path / "nowhere.yml")
    (tmp_path / "plan.yml").write_text(json.dumps({**PLAN, "rate": 0}))
    with pytest.raises(PlanError, match=r"plan\.yml: rate=0"):
        load_plan(tmp_path / "plan.yml")
    with pytest.raises(PlanError, match="cannot be started"):
        run_plan(plan_of({**PLAN, "application": "/no/such/program", "brokers": 1}))
