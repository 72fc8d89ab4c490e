"""Delegation tokens: created by a user, used by clients through SCRAM, renewed and expired."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.kafka_tools import delegation_tokens
from headrace.cli.kafka_tools.support.options import parse
from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.client.cluster_client import ClusterClient
from headrace.client.connection import Connection
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.apis import ApiKey
from tests.reference.kafka import run_tool
from tests.support.sasl import PASSWORD, SCRAM, SaslBroker, sasl_broker

NEW = {"renewers": [], "max_lifetime": -1, "owner_principal_type": None, "owner_principal_name": None}


@pytest.fixture(scope="module")
def served() -> Iterator[SaslBroker]:
    with sasl_broker({"delegation.token.secret.key": "secret of the cluster"}) as started:
        started.set_password("bert", PASSWORD, "SCRAM-SHA-256")
        yield started


def login(served: SaslBroker, user: str, password: str = PASSWORD, **more: Any) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", more.pop("mechanism", "SCRAM-SHA-256"), user, password, **more)


def ask(served: SaslBroker, security: ClientSecurity | None, api_key: ApiKey, body: Mapping[str, Any]) -> Any:
    async def asked() -> Any:
        port = served.port if security is not None else int(served.local.rpartition(":")[2])
        connection = await Connection.open("127.0.0.1", port, security=security)
        try:
            return await connection.request(api_key, body)
        finally:
            await connection.close()

    return asyncio.run(asked())


def by_token(served: SaslBroker, token: Any, mechanism: str = "SCRAM-SHA-256") -> ClientSecurity:
    password = base64.b64encode(token.hmac).decode()
    return login(served, token.token_id, password, mechanism=mechanism, by_token=True)


def test_a_token_authenticates_its_owner_and_cannot_create_tokens(served: SaslBroker) -> None:
    token = ask(served, login(served, "anna"), ApiKey.CREATE_DELEGATION_TOKEN, NEW)
    assert token.error_code is ErrorCode.none
    for mechanism in SCRAM:
        answer = ask(served, by_token(served, token, mechanism), ApiKey.METADATA, {"topics": []})
        assert len(answer.brokers) == 1
    again = ask(served, by_token(served, token), ApiKey.CREATE_DELEGATION_TOKEN, NEW)
    assert again.error_code is ErrorCode.delegation_token_request_not_allowed
    hidden = ask(served, by_token(served, token), ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None})
    assert (hidden.error_code, tuple(hidden.tokens)) == (ErrorCode.delegation_token_request_not_allowed, ())
    described = ask(served, login(served, "anna"), ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None})
    assert token.token_id in [one.token_id for one in described.tokens]


def test_login_with_a_wrong_or_expired_token_fails(served: SaslBroker) -> None:
    anna = login(served, "anna")
    token = ask(served, anna, ApiKey.CREATE_DELEGATION_TOKEN, NEW)
    wrong = [
        login(served, token.token_id, "x", by_token=True),
        login(served, "no-token", "x", by_token=True),
        login(served, token.token_id, base64.b64encode(token.hmac).decode()),
    ]
    for security in wrong:
        with pytest.raises(Refused):
            ask(served, security, ApiKey.METADATA, {"topics": []})
    ended = ask(served, anna, ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": token.hmac, "expiry_time_period": -1})
    assert ended.error_code is ErrorCode.none
    with pytest.raises(Refused):
        ask(served, by_token(served, token), ApiKey.METADATA, {"topics": []})


def test_only_owner_and_renewers_see_and_expire_a_token(served: SaslBroker) -> None:
    renewers = [{"principal_type": "User", "principal_name": "bert"}]
    hidden = ask(served, login(served, "anna"), ApiKey.CREATE_DELEGATION_TOKEN, NEW)
    shared = ask(served, login(served, "anna"), ApiKey.CREATE_DELEGATION_TOKEN, {**NEW, "renewers": renewers})
    bert = login(served, "bert")
    refused = ask(served, bert, ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": hidden.hmac, "expiry_time_period": -1})
    assert refused.error_code is ErrorCode.delegation_token_owner_mismatch
    renewed = ask(served, bert, ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": shared.hmac, "renew_period": 60_000})
    assert renewed.error_code is ErrorCode.none


def test_an_anonymous_client_cannot_create_a_token(served: SaslBroker) -> None:
    answer = ask(served, None, ApiKey.CREATE_DELEGATION_TOKEN, NEW)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed


def test_tokens_are_disabled_without_a_secret_key() -> None:
    with sasl_broker() as without:
        answer = ask(without, login(without, "anna"), ApiKey.CREATE_DELEGATION_TOKEN, NEW)
        assert answer.error_code is ErrorCode.delegation_token_auth_disabled


@pytest.mark.needs("kafka")
def test_login_with_a_token_of_kafkas_own_tool(served: SaslBroker, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    head = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
    properties.write_text(f'{head}{module} username="anna" password="{PASSWORD}";\n')
    to = ["--bootstrap-server", served.bootstrap, "--command-config", str(properties)]
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    made = run_tool(tool, *to, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bert")
    assert "Created delegation token with tokenId" in made.stdout, made.stdout + made.stderr
    token_id, digest = made.stdout.strip().splitlines()[-1].split()[:2]
    properties.write_text(f'{head}{module} username="{token_id}" password="{digest}" tokenauth="true";\n')
    listed = run_tool("org.apache.kafka.tools.TopicCommand", *to, "--list")
    assert listed.returncode == 0, listed.stdout + listed.stderr


def test_our_tool_creates_describes_and_expires_a_token(served: SaslBroker, capsys: pytest.CaptureFixture[str]) -> None:
    def tool(*words: str) -> str:
        async def ran() -> None:
            arguments = parse(delegation_tokens.OPTIONS, words)
            delegation_tokens.check(arguments)
            async with ClusterClient(served.bootstrap, security=login(served, "anna")) as client:
                await delegation_tokens.run(arguments, client)

        asyncio.run(ran())
        return capsys.readouterr().out

    made = tool("--create", "--max-life-time-period", "60000", "--renewer-principal", "User:bert")
    token_id, digest, owner, requester, renewers = made.splitlines()[-1].split()[:5]
    assert (owner, requester, renewers) == ("User:anna", "User:anna", "[User:bert]")
    assert digest in tool("--describe", "--owner-principal", "User:anna")
    assert digest not in tool("--describe", "--owner-principal", "User:carl")
    assert "Completed renew operation" in tool("--renew", "--hmac", digest, "--renew-time-period", "1000")
    assert "Completed expire operation" in tool("--expire", "--hmac", digest, "--expiry-time-period", "-1")
    assert token_id not in tool("--describe")
    with pytest.raises(ToolFailed):
        tool("--expire", "--hmac", digest, "--expiry-time-period", "-1")
