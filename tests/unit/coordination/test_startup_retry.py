"""A starting broker repeats its requests while the connection breaks, and fails with a clear message."""

from __future__ import annotations

import asyncio

import pytest

from headrace.coordination.startup_retry import answered
from headrace.coordination.store import ConnectionLost, NoNode, SessionExpired, StoreFailed


def test_a_request_with_a_lost_answer_is_repeated() -> None:
    outcomes: list[Exception | str] = [ConnectionLost("broke"), SessionExpired("over"), "the id"]

    async def question() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert asyncio.run(answered("the cluster's id", question, within_s=5)) == "the id"
    assert outcomes == []


def test_a_silent_store_is_an_error_and_a_refusal_is_raised() -> None:
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
