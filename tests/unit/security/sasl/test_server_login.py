"""The login of one connection, message by message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernel.errors import ErrorCode
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, Outcome, ServerMechanism, Work
from headrace.security.sasl.plain import PlainServer, client_token
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
from headrace.wire import codec
from headrace.wire.apis import ApiKey

NOW_MS = 1_000_000
RIGHT, WRONG = client_token("anna", "sesame"), client_token("anna", "other")


class Slow:
    """A mechanism of two tokens whose second outcome needs a thread."""

    def __init__(self) -> None:
        self._seen = 0

    def evaluate(self, token: bytes) -> Outcome:
        self._seen += 1
        if self._seen == 1:
            return Challenge(b"go on")
        if token == b"no":
            return Work(self._no)
        return Work(lambda: Accepted(b"done", "slow", expires_at_ms=NOW_MS + 700))

    def _no(self) -> Accepted:
        raise Denied("no")


def rules(max_reauth_ms: int = 0) -> LoginRules:
    def plain() -> ServerMechanism:
        return PlainServer({"anna": b"sesame", "bert": b"sesame"})

    return LoginRules({"PLAIN": plain, "SLOW": Slow}, {"PLAIN": max_reauth_ms, "SLOW": max_reauth_ms})


def request(api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
    return bytes(codec.encode_request(api_key, version, 7, "test", body)[4:])


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(ApiKey.SASL_HANDSHAKE, version, {"mechanism": mechanism})


def authenticate(token: bytes, version: int = 2) -> bytes:
    return request(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": token})


def versions(version: int = 3) -> bytes:
    return request(ApiKey.API_VERSIONS, version, {"client_software_name": "a", "client_software_version": "1"})


def answer(step: Step, api_key: int, version: int) -> Any:
    assert isinstance(step, Answered | LoggedIn | Refused)
    assert step.frame is not None
    correlation_id, read = codec.read_response(api_key, version, bytes(step.frame)[4:])
    assert correlation_id == 7
    return read


def after(*frames: bytes, login: ServerLogin | None = None) -> tuple[ServerLogin, Step]:
    login = ServerLogin(rules()) if login is None else login
    for frame in frames:
        step = login.received(frame, NOW_MS)
        if isinstance(step, VersionsAsked):
            login.versions_given()
    return login, step


@pytest.mark.parametrize("before", [(), (versions(),)])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_with_wrapped_tokens(before: tuple[bytes, ...], version: int) -> None:
    login, step = after(*before, handshake())
    assert isinstance(step, Answered)
    read = answer(step, ApiKey.SASL_HANDSHAKE, 1)
    assert (read.error_code, list(read.mechanisms)) == (ErrorCode.none, ["PLAIN", "SLOW"])
    _, step = after(authenticate(RIGHT, version), login=login)
    assert isinstance(step, LoggedIn)
    assert (step.principal, step.mechanism, step.lifetime_ms) == ("User:anna", "PLAIN", None)
    assert answer(step, ApiKey.SASL_AUTHENTICATE, version).error_code == ErrorCode.none


def test_a_login_with_bare_tokens() -> None:
    _, step = after(handshake(version=0), RIGHT)
    assert isinstance(step, LoggedIn)
    assert step.frame == b"\0\0\0\0"
    login, step = after(handshake("SLOW", 0), b"hello")
    assert isinstance(step, Answered)
    assert step.frame == b"\0\0\0\5go on"
    _, step = after(b"yes", login=login)
    assert isinstance(step, Working)
    step = login.concluded(step.run(), NOW_MS)
    assert isinstance(step, LoggedIn)
    assert step.frame == b"\0\0\0\4done"


def test_a_wrong_password_is_answered_and_closed_after_the_delay() -> None:
    _, step = after(handshake(), authenticate(WRONG))
    assert isinstance(step, Refused)
    read = answer(step, ApiKey.SASL_AUTHENTICATE, 2)
    assert read.error_code == ErrorCode.sasl_authentication_failed
    assert read.error_message == "Authentication failed: Invalid username or password"
    _, step = after(handshake(version=0), WRONG)
    assert isinstance(step, Refused)
    assert step.frame is None


def test_an_internal_reason_is_not_shown_to_the_client() -> None:
    login, step = after(handshake("SLOW"), authenticate(b"hello"), authenticate(b"no"))
    step = login.concluded(Denied("user nobody does not exist"), NOW_MS)
    words = "Authentication failed during authentication due to invalid credentials with SASL mechanism SLOW"
    assert answer(step, ApiKey.SASL_AUTHENTICATE, 2).error_message == words


def test_a_slow_outcome_comes_back() -> None:
    login, _ = after(handshake("SLOW"), authenticate(b"hello"))
    _, step = after(authenticate(b"no", 1), login=login)
    assert isinstance(step, Working)
    with pytest.raises(Denied) as denied:
        step.run()
    step = login.concluded(denied.value, NOW_MS)
    assert isinstance(step, Refused)
    assert answer(step, ApiKey.SASL_AUTHENTICATE, 1).error_code == ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("version", [0, 1])
def test_an_unknown_mechanism_is_answered_with_the_list(version: int) -> None:
    _, step = after(handshake("GSSAPI", version))
    assert isinstance(step, Refused)
    read = answer(step, ApiKey.SASL_HANDSHAKE, version)
    assert (read.error_code, list(read.mechanisms)) == (ErrorCode.unsupported_sasl_mechanism, ["PLAIN", "SLOW"])


@pytest.mark.parametrize(
    "frames",
    [
        (versions(), versions()),
        (authenticate(RIGHT),),
        (request(ApiKey.METADATA, 9, {"topics": None}),),
        (versions(), request(ApiKey.METADATA, 9, {"topics": None})),
        (versions(), b"n,,n=user,r=abc"),
        (versions(), b""),
        (handshake()[:-3],),
        (b"\0\x11\0\x09\0\0\0\7\0\1a\0\5PLAIN",),  # SaslHandshake v9
        (handshake(), b"\0\x24\0\x09\0\0\0\7\0\1a"),  # SaslAuthenticate v9
        (handshake(), authenticate(RIGHT)[:-3]),
        (handshake(), b""),
    ],
)
def test_other_bytes_than_a_login_are_closed_at_once(frames: tuple[bytes, ...]) -> None:
    _, step = after(*frames)
    assert isinstance(step, Closed)


@pytest.mark.parametrize("frame", [handshake(), versions(), request(ApiKey.METADATA, 9, {"topics": None})])
def test_another_request_between_the_tokens_gets_its_own_answer(frame: bytes) -> None:
    _, step = after(handshake(), frame)
    assert isinstance(step, OutOfTurn)


def test_a_bare_token_first_is_closed_after_the_delay() -> None:
    _, step = after(b"\x60\x82\x02")
    assert isinstance(step, Refused)
    assert step.frame is None


def test_no_frame_is_accepted_after_a_failure() -> None:
    login, _ = after(handshake(), authenticate(WRONG))
    _, step = after(authenticate(RIGHT), login=login)
    assert isinstance(step, Closed)


@pytest.mark.parametrize(("max_reauth_ms", "lifetime_ms"), [(0, 700), (500, 500), (900, 700)])
def test_the_session_ends_with_the_credential_or_the_limit(max_reauth_ms: int, lifetime_ms: int) -> None:
    login, step = after(
        handshake("SLOW"), authenticate(b"a"), authenticate(b"b"), login=ServerLogin(rules(max_reauth_ms))
    )
    assert isinstance(step, Working)
    step = login.concluded(step.run(), NOW_MS)
    assert isinstance(step, LoggedIn)
    assert step.lifetime_ms == lifetime_ms
    assert answer(step, ApiKey.SASL_AUTHENTICATE, 2).session_lifetime.total_seconds() * 1000 == lifetime_ms


# KIP-368


def renewal(mechanism: str = "PLAIN") -> ServerLogin:
    return ServerLogin(rules(500), renews=("User:anna", mechanism))


def test_the_same_principal_authenticates_again() -> None:
    _, step = after(handshake(), authenticate(RIGHT), login=renewal())
    assert isinstance(step, LoggedIn)
    assert (step.principal, step.lifetime_ms) == ("User:anna", 500)


def test_another_principal_does_not_take_the_connection_over() -> None:
    _, step = after(handshake(), authenticate(client_token("bert", "sesame")), login=renewal())
    assert isinstance(step, Refused)
    read = answer(step, ApiKey.SASL_AUTHENTICATE, 2)
    assert read.error_code == ErrorCode.sasl_authentication_failed
    assert read.error_message == "Cannot change principals during re-authentication from User:anna to User:bert"


def test_another_mechanism_is_closed_at_its_first_token() -> None:
    login, step = after(handshake("SLOW"), login=renewal())
    assert isinstance(step, Answered)
    _, step = after(authenticate(b"x"), login=login)
    assert isinstance(step, Refused)
    assert step.frame is None


def test_re_authentication_begins_with_the_handshake() -> None:
    _, step = after(versions(), login=renewal())
    assert isinstance(step, Closed)


# Anything

FRAMES = [
    versions(),
    handshake(),
    handshake(version=0),
    handshake("SLOW"),
    handshake("GSSAPI"),
    authenticate(WRONG),
    authenticate(b""),
    WRONG,
    b"",
    request(ApiKey.METADATA, 9, {"topics": None}),
]


@given(st.lists(st.sampled_from(FRAMES) | st.binary(max_size=60), max_size=6))
def test_no_sequence_without_a_right_password_logs_in(frames: list[bytes]) -> None:
    login = ServerLogin(LoginRules({"PLAIN": rules().mechanisms["PLAIN"]}, {}))
    ended = False
    for frame in frames:
        step = login.received(frame, NOW_MS)
        assert not isinstance(step, LoggedIn)
        assert not ended or isinstance(step, Closed)
        if isinstance(step, VersionsAsked):
            login.versions_given()
        ended = ended or isinstance(step, Refused | OutOfTurn | Closed)
