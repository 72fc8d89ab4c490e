"""A starting broker asks its store again while the connection comes and goes, and gives up with a sentence."""

from __future__ import annotations

import asyncio

import pytest

from headrace.coordination.startup_retry import answered
from headrace.coordination.store import ConnectionLost, NoNode, SessionExpired, StoreFailed


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    outcomes: list[Exception | str] = [ConnectionLost("broke"), SessionExpired("over"), "the id"]

    async def question() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert asyncio.run(answered("the cluster's id", question, within_s=5)) == "the id"
    assert outcomes == []


def test_a_store_that_stays_silent_is_named_and_a_refusal_is_passed_on() -> None:
    async def silent() -> str:
        raise ConnectionLost("no answer")

    async def refused() -> str:
        raise NoNode("/brokers")

    with pytest.raises(
        StoreFailed, match=r"the cluster's id: ZooKeeper .* for 0.1 s \(no answer\): see that the servers"
    ):
        asyncio.run(answered("the cluster's id", silent, within_s=0.1))
    with pytest.raises(NoNode):
        asyncio.run(answered("the cluster's id", refused, within_s=5))
