"""Random lives of groups, step by step on Apache Kafka and on Headrace: every answer must be the same.

`HEADRACE_ROUNDS=500` plays that many of each kind; `HEADRACE_SEED=107` begins at that one.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.coordinators.group.core.java_order import ids_in_java_order
from headrace.testing import broker
from tests.differential import share_history
from tests.differential.classic_history import ClassicModel
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.consumer_history import ConsumerModel, MixedModel
from tests.differential.histories import History, Model, Side, Step, Tossed, play
from tests.differential.same_ids import SameIds
from tests.differential.share_history import ShareModel
from tests.reference.kafka import ReferenceKafka
from tests.support.effort import rounds

pytestmark = pytest.mark.needs("kafka")

FIND, BEAT, CREATE_TOPICS, DELETE_TOPICS, METADATA, LIST_GROUPS = 10, 12, 19, 20, 3, 16
TOPICS = {"t": 2, "u": 3, "q": 1}
MODELS: dict[str, Callable[[random.Random, str], Model]] = {
    "classic": ClassicModel,
    "consumer": ConsumerModel,
    "mixed": MixedModel,
    "share": ShareModel,
}
STEPS = 40


@pytest.fixture(scope="module")
def sides(kafka_of_histories: ReferenceKafka) -> Iterator[tuple[Side, Side]]:
    with broker(HISTORY_SETTINGS) as ours:
        both = Side("Kafka", kafka_of_histories.port), Side("Headrace", ours.port, SameIds(ours))
        for side in both:
            prepare(side)
            align(side)
            share_history.fill(side)
        yield both


def prepare(side: Side) -> None:
    """Topics, and coordinators that are loaded, so that no answer is "ask again"."""
    for name in TOPICS:
        create_topic(side, name)
    deadline = time.monotonic() + 60
    for group in [f"warm-{number}" for number in range(40)]:
        beat = {"group_id": group, "generation_id": 0, "member_id": "x", "group_instance_id": None}
        while True:
            found = side.ask(FIND, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
            if not found.error_code and int(side.ask(BEAT, 3, beat).error_code) == 25:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
    side.know("<id of missing>", uuid.UUID(int=9))


def create_topic(side: Side, name: str) -> None:
    topic = {"name": name, "num_partitions": TOPICS[name], "replication_factor": 1, "assignments": [], "configs": []}
    side.ask(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 20_000, "validate_only": False})
    deadline = time.monotonic() + 30
    while not (found := ids_of_topics(side).get(name)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    side.know(f"<id of {name}>", found)


def delete_topic(side: Side, name: str) -> None:
    side.ask(DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 20_000})
    deadline = time.monotonic() + 30
    while name in ids_of_topics(side):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ids_of_topics(side: Side) -> dict[str, uuid.UUID]:
    """Of those whose partitions all have leaders: brokers hear of topics after the controller has answered."""
    found = side.ask(METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}).topics
    return {topic.name: topic.topic_id for topic in found if all(p.leader_id >= 0 for p in topic.partitions)}


def align(side: Side) -> None:
    """Assignors go by the order of topic ids, which are random: the second topic is made anew until it comes second."""
    while True:
        t, u = side.values["<id of t>"], side.values["<id of u>"]
        if ids_in_java_order([u, t]) == [t, u] and t.int ^ 1 << 127 < u.int ^ 1 << 127:
            return
        delete_topic(side, "u")
        create_topic(side, "u")


def history_of(sides: tuple[Side, Side], kind: str, group: str) -> History:
    if kind != "share":
        return History(*sides, adjust=only_of(group))
    history = History(*sides, adjust=share_history.adjusted)
    for side in sides:
        share_history.begin(side, group)
    return history


def only_of(group: str) -> Callable[[Step, Any], Any]:
    def adjust(step: Step, answer: Any) -> Any:
        if step.api == LIST_GROUPS:
            return {**answer, "groups": [each for each in answer["groups"] if each["group_id"] == group]}
        return answer

    return adjust


@pytest.mark.parametrize("kind", MODELS)
def test_every_step_is_answered_as_kafka_answers_it(sides: tuple[Side, Side], kind: str) -> None:
    first, tossed = int(os.environ.get("HEADRACE_SEED", "0")), 0
    count = rounds(short=5, long=200)
    for seed in range(first, first + count):
        group = f"{kind}-{seed}-{random.randrange(10**9)}"
        try:
            play(history_of(sides, kind, group), MODELS[kind](random.Random(f"{kind}-{seed}"), group), STEPS)
        except Tossed:
            tossed += 1
        except AssertionError as differs:
            raise AssertionError(f"seed {seed}: {differs}") from None
    assert tossed < count
