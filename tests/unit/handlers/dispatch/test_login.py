"""Logins on real connections: the answers, and the requests that are allowed before and after."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.dispatcher import Dispatcher
from headrace.handlers.dispatch.handler import Fields, Handler
from headrace.handlers.dispatch.login import ListenerLogin, Logins
from headrace.handlers.dispatch.request_metrics import RequestMetrics
from headrace.handlers.dispatch.table import HandlerTable
from headrace.handlers.security.sasl_handshake import SaslHandshake
from headrace.kernel.errors import ErrorCode
from headrace.net.listener import ConnectionLimits, Listeners
from headrace.security.sasl.mechanism import Accepted, Denied, Outcome, Work
from headrace.security.sasl.plain import PlainServer, client_token
from headrace.security.sasl.server_login import LoginRules
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from tests.support.clock import PATIENCE_S, Stopwatch, wait_on_loop

MAX_LOGIN_BYTES = 4000
RIGHT, WRONG = client_token("anna", "sesame"), client_token("anna", "x")


class InThread:
    """A mechanism whose outcome comes from a thread."""

    def evaluate(self, token: bytes) -> Outcome:
        return Work(lambda: self._evaluated(token))

    def _evaluated(self, token: bytes) -> Accepted:
        assert threading.current_thread() is not threading.main_thread()
        if token == b"no":
            raise Denied("no")
        return Accepted(b"", "slow", by_token=token == b"token", expires_at_ms=2**42)


@dataclass(frozen=True)
class Echo(Handler):
    """DescribeCluster that names the principal, as a request that needs a login."""

    served: list[str]
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: object, context: RequestContext) -> Fields:
        self.served.append(context.principal)
        return {
            "throttle_time": 0,
            "error_code": 0,
            "error_message": None,
            "cluster_id": context.principal,
            "controller_id": 1,
            "brokers": [],
            "cluster_authorized_operations": 0,
        }


@dataclass(frozen=True)
class Versions(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    versions: ClassVar[range] = range(4)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: object, context: RequestContext) -> Fields:
        return {"error_code": 0, "api_keys": [], "throttle_time": 0}


@dataclass(frozen=True)
class CreateToken(Handler):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN
    versions: ClassVar[range] = range(4)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: object, context: RequestContext) -> Fields:
        raise AssertionError("a session by token must not come here")


class DescribeTokens(CreateToken):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN


@dataclass
class Broker:
    port: int
    listeners: Listeners
    logins: Logins
    served: list[str]


@asynccontextmanager
async def broker(*, max_reauth_ms: int = 0, delay_ms: int = 0) -> AsyncIterator[Broker]:
    served: list[str] = []
    table = HandlerTable([Echo(served), Versions(), SaslHandshake(), CreateToken(), DescribeTokens()])
    users = {"anna": b"sesame", "bert": b"sesame"}
    rules = LoginRules(
        {"PLAIN": lambda: PlainServer(users), "SLOW": InThread}, {"PLAIN": max_reauth_ms, "SLOW": max_reauth_ms}
    )
    logins = Logins(table, {"CLIENTS": ListenerLogin(rules, delay_ms)})
    dispatcher = Dispatcher(table, RequestMetrics(), logins=logins)
    listeners = Listeners(dispatcher.serve, ConnectionLimits(), asyncio.get_running_loop())
    _, port = listeners.bind("CLIENTS", "127.0.0.1", 0)
    listeners.require_login("CLIENTS", MAX_LOGIN_BYTES)
    listeners.start()
    try:
        yield Broker(port, listeners, logins, served)
    finally:
        listeners.close()
        logins.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, to: Broker) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", to.port))

    def send(self, frame: bytes | bytearray) -> None:
        self._writer.write(frame)

    async def answer(self) -> bytes:
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(length)

    async def ask(self, api_key: int, version: int, body: Mapping[str, Any]) -> Any:
        self.send(codec.encode_request(api_key, version, 7, "test", body))
        return codec.read_response(api_key, version, await self.answer())[1]

    async def shake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return await self.ask(ApiKey.SASL_HANDSHAKE, version, {"mechanism": mechanism})

    async def authenticate(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": token})

    async def principal(self) -> str:
        answer = await self.ask(ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False})
        return str(answer.cluster_id)

    async def is_closed(self) -> bool:
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True


def run(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_a_login_gives_the_connection_its_principal() -> None:
    async def test() -> None:
        async with broker() as served:
            client = await Client.connect(served)
            body = {"client_software_name": "a", "client_software_version": "1"}
            assert (await client.ask(ApiKey.API_VERSIONS, 3, body)).error_code == ErrorCode.none
            assert list((await client.shake()).mechanisms) == ["PLAIN", "SLOW"]
            assert (await client.authenticate(RIGHT)).error_code == ErrorCode.none
            assert await client.principal() == "User:anna"
            assert (await client.shake()).error_code == ErrorCode.illegal_sasl_state
            assert await client.principal() == "User:anna"
            assert served.logins.counts.successes == 1

    run(test)


def test_a_login_with_bare_tokens_answers_plain_with_an_empty_frame() -> None:
    async def test() -> None:
        async with broker() as served:
            client = await Client.connect(served)
            await client.shake(version=0)
            client.send(struct.pack(">i", len(RIGHT)) + RIGHT)
            assert await client.answer() == b""
            assert await client.principal() == "User:anna"

    run(test)


def test_a_slow_outcome_comes_from_a_thread() -> None:
    async def test() -> None:
        async with broker() as served:
            client = await Client.connect(served)
            await client.shake("SLOW")
            assert (await client.authenticate(b"yes")).error_code == ErrorCode.none
            assert await client.principal() == "User:slow"
            client = await Client.connect(served)
            await client.shake("SLOW")
            assert (await client.authenticate(b"no")).error_code == ErrorCode.sasl_authentication_failed
            assert await client.is_closed()

    run(test)


@pytest.mark.parametrize("version", [0, 1])
def test_nothing_is_served_before_the_login(version: int) -> None:
    async def test() -> None:
        async with broker() as served:
            for shakes in (False, True):
                client = await Client.connect(served)
                if shakes:
                    await client.shake(version=version)
                body = {"include_cluster_authorized_operations": False}
                client.send(codec.encode_request(ApiKey.DESCRIBE_CLUSTER, 0, 7, "test", body))
                if shakes and version == 1:
                    answer = codec.read_response(ApiKey.DESCRIBE_CLUSTER, 0, await client.answer())[1]
                    assert answer.error_code == ErrorCode.illegal_sasl_state
                assert await client.is_closed()
            assert served.served == []

    run(test)


def test_a_failure_is_answered_after_the_delay_and_later_requests_are_not_served() -> None:
    async def test() -> None:
        async with broker(delay_ms=300) as served:
            client = await Client.connect(served)
            await client.shake()
            watch = Stopwatch()
            client.send(codec.encode_request(ApiKey.SASL_AUTHENTICATE, 2, 7, "test", {"auth_bytes": WRONG}))
            client.send(codec.encode_request(ApiKey.SASL_AUTHENTICATE, 2, 8, "test", {"auth_bytes": RIGHT}))
            answer = codec.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.answer())[1]
            watch.at_least(0.3)
            assert answer.error_code == ErrorCode.sasl_authentication_failed
            assert await client.is_closed()
            assert served.logins.counts.successes == 0

    run(test)


def test_cve_2022_34917_a_huge_length_before_the_login_is_closed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with broker() as served:
            for shakes in (False, True):
                client = await Client.connect(served)
                if shakes:
                    await client.shake()
                client.send(struct.pack(">i", MAX_LOGIN_BYTES + 1))
                assert await client.is_closed()
            client = await Client.connect(served)
            await client.shake()
            await client.authenticate(RIGHT)
            body = {"topics": [{"name": "t" * 200}] * 40, "allow_auto_topic_creation": False}
            frame = codec.encode_request(ApiKey.METADATA, 4, 7, "x" * 5000, body)
            assert len(frame) > MAX_LOGIN_BYTES
            client.send(frame)  # no handler here, so it is closed, but as a request and not as a frame too large
            assert await client.is_closed()
            assert "v4 is not served" in caplog.text

    run(test)


def test_a_client_that_disconnects_during_the_delay_is_cleaned_up() -> None:
    async def test() -> None:
        async with broker(delay_ms=50) as served:
            client = await Client.connect(served)
            await client.shake()
            client.send(codec.encode_request(ApiKey.SASL_AUTHENTICATE, 2, 7, "test", {"auth_bytes": WRONG}))
            client._writer.transport.abort()
            await wait_on_loop(lambda: not served.listeners.connections, "the connection is gone")

    run(test)


# KIP-368


def test_a_session_that_ends_is_closed_at_the_next_request() -> None:
    async def test() -> None:
        async with broker(max_reauth_ms=200) as served:
            client = await Client.connect(served)
            await client.shake()
            assert (await client.authenticate(RIGHT)).session_lifetime.total_seconds() == 0.2
            assert await client.principal() == "User:anna"
            await asyncio.sleep(0.25)
            body = {"include_cluster_authorized_operations": False}
            client.send(codec.encode_request(ApiKey.DESCRIBE_CLUSTER, 0, 7, "test", body))
            assert await client.is_closed()
            assert served.served == ["User:anna"]
            assert served.logins.counts.expired == 1

    run(test)


def test_a_session_is_renewed_before_and_after_its_end() -> None:
    async def test() -> None:
        async with broker(max_reauth_ms=1100) as served:
            client = await Client.connect(served)
            await client.shake()
            await client.authenticate(RIGHT)
            await client.shake()
            assert (await client.authenticate(RIGHT)).error_code == ErrorCode.none
            assert (await client.shake()).error_code == ErrorCode.illegal_sasl_state  # twice within a second
            assert await client.principal() == "User:anna"
            await asyncio.sleep(1.2)
            assert (await client.shake()).error_code == ErrorCode.none
            assert (await client.authenticate(RIGHT)).error_code == ErrorCode.none
            assert await client.principal() == "User:anna"
            assert (served.logins.counts.successes, served.logins.counts.renewals) == (1, 2)

    run(test)


def test_re_authentication_as_another_principal_closes_the_connection() -> None:
    async def test() -> None:
        async with broker(max_reauth_ms=60_000) as served:
            client = await Client.connect(served)
            await client.shake()
            await client.authenticate(RIGHT)
            await client.shake()
            answer = await client.authenticate(client_token("bert", "sesame"))
            assert answer.error_code == ErrorCode.sasl_authentication_failed
            assert await client.is_closed()

    run(test)


def test_requests_during_re_authentication_close_the_connection() -> None:
    async def test() -> None:
        async with broker(max_reauth_ms=60_000) as served:
            client = await Client.connect(served)
            await client.shake()
            await client.authenticate(RIGHT)
            await client.shake()
            body = {"include_cluster_authorized_operations": False}
            answer = await client.ask(ApiKey.DESCRIBE_CLUSTER, 0, body)
            assert answer.error_code == ErrorCode.illegal_sasl_state
            assert await client.is_closed()
            assert served.served == []

    run(test)


def test_a_session_with_a_delegation_token_uses_no_requests_of_tokens() -> None:
    async def test() -> None:
        async with broker() as served:
            client = await Client.connect(served)
            await client.shake("SLOW")
            await client.authenticate(b"token")
            body = {"renewers": [], "max_lifetime": -1, "owner_principal_type": None, "owner_principal_name": None}
            answer = await client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, body)
            assert answer.error_code == ErrorCode.delegation_token_request_not_allowed
            for version in (1, 2, 3):
                described = await client.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, {"owners": None})
                assert described.error_code == ErrorCode.delegation_token_request_not_allowed
                assert not described.tokens
            assert await client.principal() == "User:slow"

    run(test)
