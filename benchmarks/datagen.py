"""Test data: records that `headrace datagen` makes, and makes and sends, for each second of CPU.

Goal: 200 thousand small records a second of one core for a simple template.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.report import Row
from headrace.datagen.generator import Generator
from headrace.datagen.plan import Plan, load, read, shipped
from headrace.datagen.sending import Sender, create_topics
from headrace.testing.process import broker_process

RECORDS = 200_000
START_MS = 1_700_000_000_000
UNIT = "records/s of CPU"
SIMPLE = {
    "rate": 1_000_000,
    "topics": {
        "small": {
            "partitions": 2,
            "key": "user",
            "value": {
                "user": {"zipf": {"count": 1000, "skew": 1.0, "format": "user-{}"}},
                "page": {"integer": [1, 500]},
                "at": {"time": "ms"},
            },
        }
    },
}


def run(directory: Path, *, rounds: int) -> list[Row]:
    simple = read(SIMPLE, "simple")
    plans = {"simple template (asked 200,000)": simple, **{name: load(path) for name, path in shipped().items()}}
    rows = {name: Row(f"made, {name}", UNIT) for name in plans}
    sent = Row("made and sent, simple template (asked 200,000)", UNIT)
    with broker_process() as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        create_topics(simple, settings)
        for _ in range(rounds):
            for name, plan in plans.items():
                rows[name].add("headrace", _per_second(partial(_make, plan)))
            sent.add("headrace", _per_second(partial(_send, simple, settings)))
    return [*rows.values(), sent]


def _make(plan: Plan) -> None:
    generator, made = Generator(plan, start_ms=START_MS), 0
    while made < RECORDS:
        made += len(generator.chunk())


def _send(plan: Plan, settings: dict[str, str]) -> None:
    Sender(settings, paced=False).run(Generator(plan, start_ms=START_MS), count=RECORDS)


def _per_second(work: Callable[[], None]) -> float:
    """Of the CPU of this process with its threads, so other work on the machine hardly changes it."""
    began = time.process_time()
    work()
    return RECORDS / (time.process_time() - began)
