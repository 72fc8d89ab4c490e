"""Logins: serves the frames of connections that are not authenticated yet, or whose session has an end.

`security.sasl.server_login` decides; this module carries its steps out on the connection. An answer to a failed login
and the end of its connection wait for `connection.failed.authentication.delay.ms`. Slow outcomes (derived keys,
signatures, files) run in threads of their own, so that a flood of logins delays neither the event loop nor the disks.

A session with an end (KIP-368) keeps its connection here: SaslHandshake renews the session, and after the end every
other request closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Never, cast

from headrace.handlers.dispatch.authorization import UNRESTRICTED
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.error_answers import error_answer
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Answer, Pending, Reply
from headrace.security.principal import printable
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied
from headrace.security.sasl.server_login import (
    Answered,
    Closed,
    LoggedIn,
    LoginRules,
    OutOfTurn,
    Refused,
    ServerLogin,
    Step,
    VersionsAsked,
    Working,
)
from headrace.security.sasl.session import Session
from headrace.telemetry.counters import LoginCounts
from headrace.wire.apis import ApiKey
from headrace.wire.codec import MalformedRequest, RequestHeader, encode_response, read_request_header

log = logging.getLogger("headrace.logins")

_THREADS: Final = 2
# A session that came from a delegation token may not make or renew tokens (KIP-48), nor read the HMACs of the others of
# its owner: they are passwords that may live longer. As in Kafka (`allowTokenRequests`).
_TOKEN_APIS: Final = frozenset(
    {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)


@dataclass(frozen=True, slots=True)
class ListenerLogin:
    """The login of one SASL listener."""

    rules: LoginRules
    failure_delay_ms: int


@dataclass(slots=True)
class ConnectionLogin:
    """State of a connection: the login in progress, or its session."""

    listener: ListenerLogin
    login: ServerLogin | None
    session: Session | None = None


ServeRequest = Callable[[memoryview, Connection], Reply]


class Logins:
    """Owned by the event loop. `listeners` has the SASL listeners by name."""

    def __init__(
        self, table: HandlerTable, listeners: Mapping[str, ListenerLogin], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._wall_ms = clock.wall_ms
        self._table = table
        self._listeners = listeners
        self._threads: ThreadPoolExecutor | None = None
        self.counts = LoginCounts()

    def serve(self, frame: memoryview, connection: Connection, serve_request: ServeRequest) -> Reply:
        known = connection.state
        if not isinstance(known, ConnectionLogin):
            listener = self._listeners[connection.listener]
            known = connection.state = ConnectionLogin(listener, ServerLogin(listener.rules))
        if known.login is None:
            return self._in_session(known, frame, connection, serve_request)
        step = known.login.received(frame, self._wall_ms())
        if isinstance(step, VersionsAsked):
            return self._versions(known.login, serve_request(frame, connection))
        return self._carry_out(step, known, frame, connection)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # The steps of a login

    def _versions(self, login: ServerLogin, reply: Reply) -> Reply:
        """The error code follows the length and the correlation id. After an error the client may retry."""
        if isinstance(reply, bytearray) and reply[8:10] == b"\0\0":
            login.versions_given()
        return reply

    def _carry_out(self, step: Step, known: ConnectionLogin, frame: memoryview, connection: Connection) -> Reply:
        match step:
            case Answered(answer):
                return answer
            case LoggedIn():
                self._logged_in(step, known, connection)
                return step.frame
            case Working(run):
                return Pending.of(self._work(run, known, connection))
            case Refused(answer, reason):
                return Pending.of(self._refused(answer, reason, known, connection))
            case OutOfTurn(header, body_at, reason):
                answer = self._illegal_state(header, frame, body_at, connection)
                return Pending.of(self._refused(answer, reason, known, connection))
            case Closed(reason):
                self._failed(reason, connection)
                return CLOSE
            case VersionsAsked():
                raise AssertionError("served by the caller")

    async def _work(
        self, run: Callable[[], Challenge | Accepted], known: ConnectionLogin, connection: Connection
    ) -> Answer:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "login")
        outcome: Challenge | Accepted | Denied
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except Denied as denied:
            outcome = denied
        assert known.login is not None
        step = known.login.concluded(outcome, self._wall_ms())
        if isinstance(step, Refused):
            return await self._refused(step.frame, step.reason, known, connection)
        reply = self._carry_out(step, known, memoryview(b""), connection)
        assert not isinstance(reply, Pending), f"{step} is no outcome"
        return reply

    def _logged_in(self, step: LoggedIn, known: ConnectionLogin, connection: Connection) -> None:
        now_ms = _loop_ms()
        renewed = known.session is not None
        expires_at_ms = None if step.lifetime_ms is None else now_ms + step.lifetime_ms
        known.login = None
        known.session = Session(
            step.principal, step.mechanism, expires_at_ms, step.by_token, now_ms if renewed else None
        )
        connection.logged_in(step.principal, stays_guarded=expires_at_ms is not None, claims=step.claims)
        self.counts.succeeded(renewed=renewed)
        log.debug("%s: logged in as %s with %s", connection, printable(step.principal), step.mechanism)

    def _failed(self, reason: str, connection: Connection) -> None:
        self.counts.failed()
        log.info("%s: login failed, %s", connection, printable(reason))

    async def _refused(
        self, answer: bytes | bytearray | None, reason: str, known: ConnectionLogin, connection: Connection
    ) -> Answer:
        self._failed(reason, connection)
        await asyncio.sleep(known.listener.failure_delay_ms / 1000)
        if answer is None:
            return CLOSE
        # The answer is sent when this returns. Later frames of the client find a finished login.
        asyncio.get_running_loop().call_soon(connection.close)
        return answer

    def _illegal_state(
        self, header: RequestHeader, frame: memoryview, body_at: int, connection: Connection
    ) -> bytearray | None:
        """The error answer to another API between the tokens; None if the request is not readable."""
        handler = self._table.get(header.api_key)
        if handler is None or header.api_version not in handler.versions:
            return None
        words = f"Unexpected Kafka request of type {ApiKey(header.api_key).name} during SASL authentication."
        try:
            request = handler.read(header, frame, body_at)
        except MalformedRequest:
            return None
        context = RequestContext(
            header, connection.peer_host, connection.listener, connection.principal, UNRESTRICTED, self._wall_ms()
        )
        code = int(ErrorCode.illegal_sasl_state)
        fields = handler.refuse(cast("Never", request), context, code, words)
        return _encoded(header, fields)

    # A session with an end

    def _in_session(
        self, known: ConnectionLogin, frame: memoryview, connection: Connection, serve_request: ServeRequest
    ) -> Reply:
        session, now_ms = known.session, _loop_ms()
        assert session is not None
        api_key = int.from_bytes(frame[:2], "big", signed=True)
        if api_key == ApiKey.SASL_HANDSHAKE and session.may_reauthenticate(now_ms):
            known.login = ServerLogin(known.listener.rules, renews=(session.principal, session.mechanism))
            return self._carry_out(known.login.received(frame, self._wall_ms()), known, frame, connection)
        if session.is_expired(now_ms):
            self.counts.expired += 1
            log.info("%s: closed, the session of %s is over", connection, printable(session.principal))
            return CLOSE
        if session.by_token and api_key in _TOKEN_APIS:
            return self._no_tokens_by_token(frame)
        return serve_request(frame, connection)

    def _no_tokens_by_token(self, frame: memoryview) -> Reply:
        try:
            header, _ = read_request_header(frame)
        except MalformedRequest:
            return CLOSE
        handler = self._table.get(header.api_key)
        if handler is None or header.api_version not in handler.versions:
            return CLOSE
        code = int(ErrorCode.delegation_token_request_not_allowed)
        return _encoded(header, error_answer(header.api_key, header.api_version, code, "")) or CLOSE


def _encoded(header: RequestHeader, fields: Mapping[str, object] | None) -> bytearray | None:
    if fields is None:
        return None
    return encode_response(header.api_key, header.api_version, header.correlation_id, fields)


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
