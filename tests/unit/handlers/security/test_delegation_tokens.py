"""Delegation tokens: for whom they are made, and whom they log in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.wiring.listener_logins import ScramUsers
from headrace.cluster.core.changes import ConfigSet, apply
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.tokens import TOKEN
from headrace.controller.core.token_changes import NewToken, TokenRules, created
from headrace.handlers.dispatch.audit import Audit
from headrace.handlers.dispatch.authorization import RestrictedAccess
from headrace.handlers.security.delegation_tokens import CreateDelegationToken
from headrace.kernel.clock import SYSTEM_CLOCK
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.authorizer import Authorizer
from headrace.security.acl.model import Entry, Operation, Permission, ResourcePattern, ResourceType
from headrace.security.sasl.mechanism import Accepted, Denied, Work
from headrace.security.sasl.scram import ScramClient, ScramServer
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.security.sasl.tokens import DelegationToken, token_password
from headrace.wire.apis import ApiKey

ANN = "User:ann"
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
RULES = TokenRules("secret", 86_400_000, 86_400_000)


def right(permission: Permission) -> list[Entry]:
    return [Entry(ANN, "*", Operation.CREATE_TOKENS, permission)]


ACLS = {
    ResourcePattern(ResourceType.USER, "*"): right(Permission.ALLOW),
    ResourcePattern(ResourceType.USER, "User:admin"): right(Permission.DENY),
}


class LocalController:
    async def serve(self, request: object, context: object, locally: Callable[[], Awaitable[Any]]) -> Any:
        return await locally()

    @property
    def controller(self) -> LocalController:
        return self

    async def create_token(self, asked: NewToken, now_ms: int) -> tuple[DelegationToken, str]:
        return created(ClusterImage(), RULES, asked, now_ms)[0], "secret"


def owner_of_new_token(kind: str | None, name: str | None) -> str:
    access = RestrictedAccess(Authorizer(ACLS), Audit(), ANN, "1.2.3.4", ApiKey.CREATE_DELEGATION_TOKEN)
    context = SimpleNamespace(principal=ANN, access=access, received_at_ms=1)
    request = SimpleNamespace(
        owner_principal_type=kind, owner_principal_name=name, renewers=(), max_lifetime=timedelta(hours=1)
    )
    handler = CreateDelegationToken(cast("Any", LocalController()))
    answer = asyncio.run(handler.serve(cast("Any", request), cast("Any", context)))
    return f"{answer['principal_type']}:{answer['principal_name']}"


@pytest.mark.parametrize(("kind", "name"), [(None, None), ("", ""), (None, ""), ("User", "ann")])
def test_a_token_is_of_the_requester_if_no_owner_is_named(kind: str | None, name: str | None) -> None:
    assert owner_of_new_token(kind, name) == ANN


def test_a_token_for_another_user_needs_the_right() -> None:
    assert owner_of_new_token("User", "bert") == "User:bert"
    with pytest.raises(Refused) as refused:
        owner_of_new_token("User", "admin")
    assert refused.value.code is ErrorCode.delegation_token_authorization_failed


@pytest.mark.parametrize("kind", ["X", "user", "Role", "Group"])
def test_an_owner_is_a_user(kind: str) -> None:
    """Stricter than Kafka, which takes any type and forgets it at the login. The right to `X:admin` is not the one to
    `User:admin`."""
    with pytest.raises(Refused) as refused:
        owner_of_new_token(kind, "admin")
    assert refused.value.code is ErrorCode.invalid_principal_type


@pytest.mark.parametrize(("owner", "may_log_in"), [("User:admin", True), ("X:admin", False), ("Role:admin", False)])
def test_a_token_of_another_owner_than_a_user_is_no_login(owner: str, may_log_in: bool) -> None:
    """0.1.0 made such tokens."""
    now_ms = SYSTEM_CLOCK.wall_ms()
    token = DelegationToken("t", owner, ANN, (), now_ms, now_ms + 60_000, now_ms + 60_000)
    image = apply(ClusterImage(), [ConfigSet(TOKEN, token.id, token.as_values())], 1)
    users = ScramUsers(cast("Any", SimpleNamespace(current=image)), "secret")
    server = ScramServer(SHA_256, users.find, users.find_token)
    client = ScramClient(SHA_256, token.id, token_password(token.id, "secret"), by_token=True)
    begun = server.evaluate(client.first())
    assert isinstance(begun, Work)
    challenge = begun.run()
    if may_log_in:
        assert cast("Accepted", server.evaluate(client.final(challenge.token))).name == "admin"
    else:
        with pytest.raises(Denied):
            server.evaluate(client.final(challenge.token))


@pytest.mark.parametrize(("kind", "name"), [("User", ""), ("User", None), ("", "bert"), (None, "bert")])
def test_half_an_owner_is_refused(kind: str | None, name: str | None) -> None:
    """Stricter than Kafka, which makes a token of the requester if only the name is missing, and one of `:bert` if the
    type is empty."""
    with pytest.raises(Refused) as refused:
        owner_of_new_token(kind, name)
    assert refused.value.code is ErrorCode.invalid_request
