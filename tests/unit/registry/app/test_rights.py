"""Only an answer that brokers give after they have checked the caller's ACLs grants a right of the registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.registry.app.rights import Right, Rights
from headrace.registry.core.errors import BadRequest
from headrace.testing.in_process import RunningBroker
from headrace.web.connections import PerCaller
from headrace.web.errors import Problem
from headrace.web.login import Caller
from headrace.wire.apis import ApiKey

ANN = Caller("User:ann", None)


class OneAnswer:
    """A client to which the brokers answer every request with one code."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = int(code)

    async def request(self, key: ApiKey, body: dict[str, Any], **_: object) -> SimpleNamespace:
        row = SimpleNamespace(error_code=self.code)
        if key is ApiKey.METADATA:
            named = [SimpleNamespace(name=each["name"], error_code=self.code) for each in body["topics"]]
            return SimpleNamespace(topics=named)
        if key is ApiKey.PRODUCE:
            return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row])])
        return SimpleNamespace(responses=[row])


def rights_with(client: object) -> Rights:
    class Clients:
        @asynccontextmanager
        async def lease(self, _: Caller) -> AsyncIterator[object]:
            yield client

    return Rights(cast("PerCaller[ClusterClient]", Clients()))


async def check_all(rights: Rights) -> list[object]:
    """What each check of a right raises."""
    checks = [rights.check(ANN, right, "orders-value") for right in Right]
    return await asyncio.gather(*checks, rights.check_cluster(ANN), return_exceptions=True)


@pytest.mark.parametrize("code", [ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed])
def test_a_denied_right_is_403(code: ErrorCode) -> None:
    found = asyncio.run(check_all(rights_with(OneAnswer(code))))
    assert [each.code for each in found if isinstance(each, BadRequest)] == [40301] * 4


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.request_timed_out,  # there is no controller
        ErrorCode.not_controller,
        ErrorCode.unknown_server_error,
        ErrorCode.broker_not_available,
        ErrorCode.invalid_request,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.sasl_authentication_failed,
    ],
)
def test_an_answer_that_says_nothing_about_rights_is_503(code: ErrorCode) -> None:
    rights = rights_with(OneAnswer(code))
    found = asyncio.run(check_all(rights))
    assert [each.status for each in found if isinstance(each, Problem)] == [503] * 4, found
    assert all(code.name.upper() in str(each) for each in found)
    with pytest.raises(Problem):
        asyncio.run(rights.readable(ANN, ["orders-value"]))


def test_an_answer_without_the_topic_is_503() -> None:
    class NoTopics(OneAnswer):
        async def request(self, key: ApiKey, body: dict[str, Any], **_: object) -> SimpleNamespace:
            return SimpleNamespace(topics=[])

    with pytest.raises(Problem, match="their answer lacks it"):
        asyncio.run(rights_with(NoTopics(ErrorCode.none)).check(ANN, Right.READ, "orders-value"))


def test_a_listing_keeps_subjects_whose_answer_becomes_too_old_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(OneAnswer):
        async def request(self, key: ApiKey, body: dict[str, Any], **options: object) -> SimpleNamespace:
            await asyncio.sleep(0.05)
            return await super().request(key, body, **options)

    async def listed() -> list[str]:
        rights = rights_with(Slow(ErrorCode.none))
        await rights.check(ANN, Right.READ, "orders-value")
        subjects = ["orders-value", "payments-value"]
        return list(filter(await rights.readable(ANN, subjects), subjects))

    monkeypatch.setattr("headrace.registry.app.rights._KEPT_S", 0.04)
    assert asyncio.run(listed()) == ["orders-value", "payments-value"]
    monkeypatch.setattr("headrace.registry.app.rights._KEPT_S", 5.0)
    monkeypatch.setattr("headrace.registry.app.rights._MOST_KEPT", 1)
    assert asyncio.run(listed()) == ["orders-value", "payments-value"]


def test_brokers_grant_rights_on_topics_that_exist_or_not(running: RunningBroker) -> None:
    """The codes of a real broker, which has no authorizer and so allows everything."""

    async def check() -> None:
        client = ClusterClient(running.bootstrap, client_id="rights")
        await client.refresh(topics=())
        one = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        await client.request(
            ApiKey.CREATE_TOPICS, {"topics": [{"name": "there", **one}], "timeout": 30_000, "validate_only": False}
        )
        rights = rights_with(client)
        for subject in ("there-value", "gone-value", "not a topic", "__consumer_offsets-value", "x" * 300):
            for right in Right:
                await rights.check(ANN, right, subject)
        await rights.check_cluster(ANN)
        await client.close()

    asyncio.run(check())
