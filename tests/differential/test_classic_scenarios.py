"""Scenarios of classic groups, step by step on Apache Kafka and on Headrace: the same answers.

`HEADRACE_EFFORT=long` adds the scenarios with timeouts, and every pair of protocols with equal votes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace.testing import broker
from tests.differential import classic_invalid_requests, classic_scenarios, classic_timeouts
from tests.differential.classic_script import Script
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.histories import History, Side
from tests.differential.test_group_histories import only_of, prepare
from tests.reference.kafka import ReferenceKafka
from tests.support.effort import is_long
from tests.support.names import unique

pytestmark = pytest.mark.needs("kafka")

SCENARIOS = [
    *classic_scenarios.SCENARIOS,
    *classic_invalid_requests.SCENARIOS,
    *((*classic_timeouts.SCENARIOS, classic_scenarios.votes) if is_long() else ()),
]


@pytest.fixture(scope="module")
def sides(history_kafka: ReferenceKafka) -> Iterator[tuple[Side, Side]]:
    with broker(HISTORY_SETTINGS) as ours:
        both = Side("Kafka", history_kafka.port), Side("Headrace", ours.port)
        for side in both:
            prepare(side)
        yield both


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_step_is_answered_as_in_kafka(sides: tuple[Side, Side], scenario: Callable[[Script], None]) -> None:
    group = unique(scenario.__name__)
    scenario(Script(History(*sides, adjust=only_of(group)), group))
