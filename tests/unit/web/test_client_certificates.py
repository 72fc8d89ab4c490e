"""Callers with a client certificate: the service acts for the name in it, and never with its own rights."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.tls.names import principal_mapping
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import Problem
from headrace.web.listener import CERTIFICATE
from headrace.web.login import Brokers, Caller, Login

OWN = ClientSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", "http-service", "secret")
SERVICE = ("User", "http-service")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class FakeCluster:
    """Brokers that make a token of the owner asked for, or of another one."""

    def __init__(self, made_for: tuple[str, str] | None = None) -> None:
        self.made_for = made_for
        self.lives = timedelta(hours=1)
        self.asked: list[str] = []

    async def request(self, api_key: int, body: dict[str, Any]) -> Any:
        kind, name = body["owner_principal_type"], body["owner_principal_name"]
        self.asked.append(name)
        if not name:
            kind, name = SERVICE
        kind, name = self.made_for or (kind, name)
        return SimpleNamespace(
            error_code=0,
            principal_type=kind,
            principal_name=name,
            token_id=f"t{len(self.asked)}",
            hmac=b"x",
            issue_timestamp=NOW,
            expiry_timestamp=NOW + self.lives,
        )


def tokens(cluster: FakeCluster) -> DelegationTokens:
    made = DelegationTokens(Brokers("localhost:1", OWN, OWN), timeout_s=1)
    made._client = cast("Any", cluster)
    return made


def caller(subject: str, rules: str, cluster: FakeCluster) -> Caller:
    mapping = principal_mapping(rules)
    tls = SimpleNamespace(principal_of=lambda certificate: mapping(certificate.decode()))
    request = Request({"type": "http", "headers": [], "state": {CERTIFICATE: subject.encode()}})
    login = Login(Brokers("localhost:1", OWN, OWN), tls=cast("Any", tls), tokens=tokens(cluster))
    return asyncio.run(login.caller(request))


def test_a_certificate_acts_by_a_token_of_its_own_name() -> None:
    cluster = FakeCluster()
    found = caller("CN=erin", "RULE:^CN=(.*)$/$1/", cluster)
    assert (found.principal, cluster.asked) == ("User:erin", ["erin"])
    assert found.security is not None and found.security.by_token


@pytest.mark.parametrize(("subject", "rules"), [("", "DEFAULT"), ("O=Other", "RULE:^(CN=(.*),)?O=Other$/$2/")])
def test_a_certificate_without_a_name_is_refused(subject: str, rules: str) -> None:
    cluster = FakeCluster()
    with pytest.raises(Problem) as problem:
        caller(subject, rules, cluster)
    assert (problem.value.status, cluster.asked) == (401, [])


@pytest.mark.parametrize("made_for", [SERVICE, ("Group", "erin"), ("User", "")])
def test_a_token_of_somebody_else_is_not_used(made_for: tuple[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        asyncio.run(tokens(FakeCluster(made_for)).token_of("User:erin"))
    assert refused.value.code is ErrorCode.delegation_token_owner_mismatch


@pytest.mark.parametrize(("lives", "reused_s"), [(timedelta(hours=1), 1799), (timedelta(minutes=1), 29)])
def test_a_token_is_replaced_after_half_of_its_life(
    lives: timedelta, reused_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its life is what the brokers answer: delegation.token.expiry.time.ms may be short."""
    cluster = FakeCluster()
    cluster.lives = lives
    now = [0.0]
    monkeypatch.setattr("headrace.web.delegation.time", SimpleNamespace(monotonic=lambda: now[0]))

    async def ids() -> list[str]:
        made, found = tokens(cluster), []
        for now[0] in (0.0, float(reused_s), reused_s + 2.0):
            found.append((await made.token_of("User:erin"))[0])
        return found

    assert asyncio.run(ids()) == ["t1", "t1", "t2"]
