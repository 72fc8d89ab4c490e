"""Random group histories, step by step on Apache Kafka and on Headrace: every answer must be the same.

`HEADRACE_ROUNDS=500` runs that many of each kind. `HEADRACE_SEED=107` begins with that seed.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from headrace.testing import broker
from tests.differential import share_fixtures, share_history
from tests.differential.classic_history import ClassicModel
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.consumer_edge_cases import EDGE_CASES
from tests.differential.consumer_history import ConsumerModel, MixedModel
from tests.differential.histories import History, Model, NotComparable, Side, Step, play
from tests.differential.same_ids import SameIds
from tests.differential.share_history import ShareModel
from tests.differential.share_subscriptions import ShareMember, set_assignment_interval
from tests.differential.streams_history import StreamsModel
from tests.reference.kafka import ReferenceKafka
from tests.support.clock import wait_for
from tests.support.effort import rounds
from tests.support.group_requests import (
    BEAT,
    CONSUMER_DESCRIBE,
    FIND,
    LIST,
    SHARE_ACK,
    SHARE_BEAT,
    SHARE_DELETE,
    SHARE_DESCRIBE,
    SHARE_FETCH,
    SHARE_OFFSETS,
)
from tests.support.names import unique

pytestmark = pytest.mark.needs("kafka")

CREATE_TOPICS, DELETE_TOPICS, METADATA, API_VERSIONS, UPDATE_FEATURES = 19, 20, 3, 18, 57
TOPICS = {"t": 2, "u": 3, "q": 1}
MODELS: dict[str, Callable[[random.Random, str], Model]] = {
    "classic": ClassicModel,
    "consumer": ConsumerModel,
    "mixed": MixedModel,
    "share": ShareModel,
    "streams": StreamsModel,
}
STEPS = 40


@pytest.fixture(scope="module")
def sides(history_kafka: ReferenceKafka) -> Iterator[tuple[Side, Side]]:
    with broker(HISTORY_SETTINGS) as ours:
        both = Side("Kafka", history_kafka.port), Side("Headrace", ours.port, SameIds(ours))
        for side in both:
            prepare(side)
            align(side)
            share_fixtures.fill(side)
        yield both


def prepare(side: Side) -> None:
    """Creates topics and loads coordinators, so that no answer is a retriable error."""
    for name in TOPICS:
        create_topic(side, name)

    def is_loaded(group: str) -> bool:
        beat = {"group_id": group, "generation_id": 0, "member_id": "x", "group_instance_id": None}
        found = side.ask(FIND, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
        return not found.error_code and int(side.ask(BEAT, 3, beat).error_code) == 25

    for group in [f"warm-{number}" for number in range(40)]:
        wait_for(lambda group=group: is_loaded(group), f"the coordinator of {group} on {side.name}")
    side.know("<id of missing>", uuid.UUID(int=9))


def create_topic(side: Side, name: str) -> None:
    topic = {"name": name, "num_partitions": TOPICS[name], "replication_factor": 1, "assignments": [], "configs": []}
    side.ask(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 20_000, "validate_only": False})
    side.know(f"<id of {name}>", wait_for(lambda: ids_of_topics(side).get(name), f"{name} on {side.name}"))


def delete_topic(side: Side, name: str) -> None:
    side.ask(DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 20_000})


def ids_of_topics(side: Side) -> dict[str, uuid.UUID]:
    """Topics whose partitions all have leaders: brokers learn of topics after the controller has answered."""
    found = side.ask(METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}).topics
    return {topic.name: topic.topic_id for topic in found if all(p.leader_id >= 0 for p in topic.partitions)}


def align(side: Side) -> None:
    """Assignors order topics by topic id, which is random. The function creates both topics again until the first
    has an id of the lower half and a lower bucket of Kafka's hash tables (in one bucket, the order would be that
    of insertion).
    """
    for name, is_second in (("t", False), ("u", True)):
        while True:
            topic_id = side.values[f"<id of {name}>"]
            # The highest bit is a sign.
            if (bucket(topic_id) >= 8) == (topic_id.int < 1 << 127) == is_second:
                break
            delete_topic(side, name)
            create_topic(side, name)


def bucket(topic_id: uuid.UUID) -> int:
    folded = topic_id.int >> 64 ^ topic_id.int
    value = (folded >> 32 ^ folded) & 0xFFFFFFFF
    return (value ^ value >> 16) & 15


def history_of(sides: tuple[Side, Side], kind: str, group: str) -> History:
    if kind != "share":
        return History(*sides, adjust=only_of(group))
    history = History(*sides, adjust=share_history.adjusted)
    for side in sides:
        share_fixtures.begin(side, group)
    return history


def wait_for_topics(sides: tuple[Side, Side], names: list[str]) -> None:
    """Both brokers create the internal topics of a streams application after their answer."""
    for side in sides:
        wait_for(lambda side=side: set(names) <= set(ids_of_topics(side)), f"{names} on {side.name}")
        side.wait_until_applied()


def only_of(group: str) -> Callable[[Step, Any], Any]:
    def adjust(step: Step, answer: Any) -> Any:
        if step.api == LIST:
            return {**answer, "groups": [each for each in answer["groups"] if each["group_id"] == group]}
        return answer

    return adjust


@pytest.mark.parametrize("kind", MODELS)
def test_every_step_is_answered_as_in_kafka(sides: tuple[Side, Side], kind: str) -> None:
    first, tossed = int(os.environ.get("HEADRACE_SEED", "0")), 0
    count = rounds(short=5, long=200)
    for seed in range(first, first + count):
        group = unique(f"{kind}-{seed}")
        try:
            model = MODELS[kind](random.Random(f"{kind}-{seed}"), group)
            if isinstance(model, StreamsModel):
                model.settle = partial(wait_for_topics, sides)
            play(history_of(sides, kind, group), model, STEPS)
        except NotComparable:
            tossed += 1
        except AssertionError as differs:
            raise AssertionError(f"seed {seed}: {differs}") from None
    assert tossed < count


@pytest.mark.parametrize("corner", EDGE_CASES)
def test_edge_cases_of_the_consumer_protocol_are_answered_as_in_kafka(sides: tuple[Side, Side], corner: str) -> None:
    group = unique(corner)
    history = History(*sides, adjust=only_of(group))
    for step in EDGE_CASES[corner](group):
        history.take(step, lambda *_: None)


def test_requests_of_a_feature_at_level_zero_are_rejected_as_in_kafka(sides: tuple[Side, Side]) -> None:
    """Requests work again when the level is raised. Groups survive meanwhile."""
    group = unique("features")
    model = ConsumerModel(random.Random(0), group)
    history = History(*sides, adjust=only_of(group))
    member = model.members["a"]
    before = [model._joining(member), model._describe()]
    asked = [
        *before,
        Step(CONSUMER_DESCRIBE, 1, {"group_ids": [group, "other"], "include_authorized_operations": False}),
        Step(LIST, 5, {"states_filter": [], "types_filter": ["consumer"]}),
        *share_steps(f"{group}-of-shares"),
    ]
    for step in before:
        history.take(step, model.heard)
    for features in ({"group.version": 0}, {"share.version": 0}, {"group.version": 1, "share.version": 1}):
        for side in sides:
            set_levels(side, features)
        for step in asked:
            history.take(step, lambda *_: None)
    history.take(model._heartbeat(member, -1), model.heard)


def test_a_share_member_that_changes_its_subscription_is_answered_as_in_kafka(sides: tuple[Side, Side]) -> None:
    """Topics whose share partitions are not initialised come with a later heartbeat. Topics that the member
    unsubscribed from are removed at once.
    """
    group = f"subscriptions-{random.randrange(10**9)}"
    lives = [("u",), ("t",), ("u",), ("t", "u"), ("u",), ("missing",), ("t", "q"), (), ("q", "u")]
    told = []
    for side in sides:
        member = ShareMember(side, group, TOPICS)
        member.subscribe(("t",))
        member.settle(("t",))
        told.append([(names, member.subscribe(names), member.settle(names)) for names in lives])
        member.leave()
    assert told[1] == told[0]
    assert told[0][0] == (("u",), (1, {}), {"u": [0, 1, 2]}), "first nothing, then the new topic"


def test_a_share_member_loses_unsubscribed_topics_at_once_within_the_assignment_interval(
    sides: tuple[Side, Side],
) -> None:
    group = f"intervals-{random.randrange(10**9)}"
    both, longest_ms = ("t", "u"), 15_000
    lives = [("u",), ("t",), ("t", "u"), ("q",), ("u", "q"), ()]
    told: list[list[Any]] = []
    for side in sides:
        member = ShareMember(side, group, TOPICS)
        member.subscribe(both)
        member.settle(both)
        told.append([])
        for names in lives:
            set_assignment_interval(side, group, longest_ms)
            member.unsubscribe_within_interval(both)
            told[-1].append((names, member.subscribe(names)))
            set_assignment_interval(side, group, 0)
            member.subscribe(both)
            member.settle(both)
        member.leave()
    assert told[1] == told[0]


def share_steps(group: str) -> list[Step]:
    member = str(uuid.UUID(int=1))
    session = {"group_id": group, "member_id": member, "share_session_epoch": 5, "topics": []}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1_000, "max_records": 1, "batch_size": 1}
    return [
        Step(SHARE_DESCRIBE, 1, {"group_ids": [group], "include_authorized_operations": False}),
        Step(SHARE_FETCH, 1, {**session, **limits, "forgotten_topics_data": []}),
        Step(SHARE_ACK, 1, session),
        Step(SHARE_OFFSETS, 0, {"groups": [{"group_id": group, "topics": None}]}),
        Step(SHARE_DELETE, 0, {"group_id": group, "topics": [{"topic_name": "q"}]}),
        Step(SHARE_BEAT, 1, share_history.heartbeat(group, member, 7)),  # type: ignore[attr-defined]
    ]


def set_levels(side: Side, levels: dict[str, int]) -> None:
    upgrade, safe_downgrade = 1, 2
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": upgrade if level else safe_downgrade}
        for name, level in levels.items()
    ]
    answer = side.ask(UPDATE_FEATURES, 1, {"timeout": 20_000, "feature_updates": updates, "validate_only": False})
    assert not answer.error_code, answer
    wanted = {name: level for name, level in levels.items() if level}
    assert {name: level for name, level in levels_of(side).items() if name in levels} == wanted


def levels_of(side: Side) -> dict[str, int]:
    asked = {"client_software_name": "asker", "client_software_version": "1"}
    return {each.name: each.max_version_level for each in side.ask(API_VERSIONS, 4, asked).finalized_features}
