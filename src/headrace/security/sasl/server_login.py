"""The login of one connection: its frames in, steps out (Kafka's SaslServerAuthenticator).

    FIRST ──ApiVersions──► HANDSHAKE ──SaslHandshake──► TOKENS ──last token──► DONE
      └──────────SaslHandshake───────────────────────────▲

ApiVersions comes at most once and may be left out. After SaslHandshake v1 the tokens come in SaslAuthenticate requests,
after v0 as bare frames. A login that fails ends the connection. Every failure that a client can cause with credentials
is answered and closed after a delay (`Refused`), and everything that is not a login is closed at once (`Closed`). The
words of an answer never say whether the user exists.

A slow outcome (`Working`) comes back through `concluded`. The caller reads no further frame before that.

To authenticate again (KIP-368), a login begins at HANDSHAKE with the session that it renews. The mechanism and the
principal have to stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.principal import user_principal
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, ServerMechanism, Work
from headrace.security.sasl.session import session_lifetime_ms
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.codec import (
    MalformedRequest,
    RequestHeader,
    encode_response,
    known_versions,
    read_request,
    read_request_header,
)

# Steps


@dataclass(frozen=True, slots=True)
class Answered:
    """Send the frame; the login goes on."""

    frame: bytes | bytearray


@dataclass(frozen=True, slots=True)
class VersionsAsked:
    """Serve ApiVersions, and call `versions_given` if its answer has no error."""


@dataclass(frozen=True, slots=True)
class Working:
    """Run it in a thread, then call `concluded` with what it returns or with the Denied that it raises."""

    run: Callable[[], Challenge | Accepted]


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Send the frame; the login is over. `lifetime_ms` is None for a session without an end."""

    frame: bytes | bytearray
    principal: str
    mechanism: str
    lifetime_ms: int | None
    by_token: bool
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Wait for `connection.failed.authentication.delay.ms`, send the frame, if there is one, and close."""

    frame: bytes | bytearray | None
    reason: str


@dataclass(frozen=True, slots=True)
class OutOfTurn:
    """A request of another API between the tokens: as `Refused`, with that API's own ILLEGAL_SASL_STATE answer."""

    header: RequestHeader
    body_at: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Close at once, without an answer."""

    reason: str


Step = Answered | VersionsAsked | Working | LoggedIn | Refused | OutOfTurn | Closed


# The login


@dataclass(frozen=True, slots=True)
class LoginRules:
    """What a listener offers: its mechanisms in the order of `sasl.enabled.mechanisms`, and `connections.max.reauth.ms`
    of each."""

    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    max_reauth_ms: Mapping[str, int]


class _State(Enum):
    FIRST = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    OTHER_MECHANISM = auto()
    WORKING = auto()
    DONE = auto()


class ServerLogin:
    """`renews`: principal and mechanism of the session that the client renews, or None for its first login."""

    def __init__(self, rules: LoginRules, renews: tuple[str, str] | None = None) -> None:
        self._rules = rules
        self._renews = renews
        self._state = _State.FIRST if renews is None else _State.HANDSHAKE
        self._mechanism_name = ""
        self._mechanism: ServerMechanism | None = None
        self._is_wrapped = False  # whether tokens come in SaslAuthenticate requests
        self._asked_by: RequestHeader | None = None

    @property
    def _what(self) -> str:
        return "authentication" if self._renews is None else "re-authentication"

    def received(self, frame: bytes | memoryview, now_ms: int) -> Step:
        match self._state:
            case _State.FIRST | _State.HANDSHAKE:
                return self._request(frame)
            case _State.TOKENS:
                return (
                    self._wrapped_token(frame, now_ms) if self._is_wrapped else self._token(bytes(frame), None, now_ms)
                )
            case _State.OTHER_MECHANISM:
                assert self._renews is not None
                return self._ended(
                    Refused(None, f"re-authentication with {self._mechanism_name} instead of {self._renews[1]}")
                )
            case _State.WORKING | _State.DONE:
                return self._ended(Closed("a frame after the end of the login"))

    def versions_given(self) -> None:
        self._state = _State.HANDSHAKE

    def concluded(self, outcome: Challenge | Accepted | Denied, now_ms: int) -> Step:
        """Takes the outcome of `Working`."""
        assert self._state is _State.WORKING
        self._state = _State.TOKENS
        header, self._asked_by = self._asked_by, None
        if isinstance(outcome, Denied):
            return self._denied(outcome, header)
        return self._came(outcome, header, now_ms)

    # Before the tokens

    def _request(self, frame: bytes | memoryview) -> Step:
        try:
            header, body_at = read_request_header(frame)
        except MalformedRequest as bad:
            return self._not_a_request(str(bad))
        if header.api_key == ApiKey.API_VERSIONS:
            if self._state is not _State.FIRST:
                return self._ended(Closed("ApiVersions a second time"))
            return VersionsAsked()
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return self._ended(Closed(f"{api_name(header.api_key)} before the login"))
        if header.api_version not in known_versions(ApiKey.SASL_HANDSHAKE):
            return self._ended(Closed(f"SaslHandshake v{header.api_version} is not served"))
        try:
            request = read_request(header, frame, body_at)
        except MalformedRequest as bad:
            return self._ended(Closed(str(bad)))
        return self._handshake(header, str(request.mechanism))

    def _not_a_request(self, reason: str) -> Step:
        """Very old clients begin with a bare GSSAPI token, which Kafka refuses after its delay where GSSAPI is off."""
        return self._ended(Refused(None, reason) if self._state is _State.FIRST else Closed(reason))

    def _handshake(self, header: RequestHeader, mechanism: str) -> Step:
        self._mechanism_name = mechanism
        self._is_wrapped = header.api_version >= 1
        make = self._rules.mechanisms.get(mechanism)
        error = ErrorCode.unsupported_sasl_mechanism if make is None else ErrorCode.none
        frame = encode_response(
            ApiKey.SASL_HANDSHAKE,
            header.api_version,
            header.correlation_id,
            {"error_code": int(error), "mechanisms": list(self._rules.mechanisms)},
        )
        if make is None:
            return self._ended(Refused(frame, f"SASL mechanism {mechanism[:100]!r} is not enabled"))
        if self._renews is not None and self._renews[1] != mechanism:
            self._state = _State.OTHER_MECHANISM
        else:
            self._mechanism = make()
            self._state = _State.TOKENS
        return Answered(frame)

    # Tokens

    def _wrapped_token(self, frame: bytes | memoryview, now_ms: int) -> Step:
        try:
            header, body_at = read_request_header(frame)
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                return self._ended(OutOfTurn(header, body_at, f"{api_name(header.api_key)} between SASL tokens"))
            if header.api_version not in known_versions(ApiKey.SASL_AUTHENTICATE):
                return self._ended(Closed(f"SaslAuthenticate v{header.api_version} is not served"))
            request = read_request(header, frame, body_at)
        except MalformedRequest as bad:
            return self._ended(Closed(str(bad)))
        return self._token(bytes(request.auth_bytes), header, now_ms)

    def _token(self, token: bytes, header: RequestHeader | None, now_ms: int) -> Step:
        assert self._mechanism is not None
        try:
            outcome = self._mechanism.evaluate(token)
        except Denied as denied:
            return self._denied(denied, header)
        if isinstance(outcome, Work):
            self._state, self._asked_by = _State.WORKING, header
            return Working(outcome.run)
        return self._came(outcome, header, now_ms)

    def _came(self, outcome: Challenge | Accepted, header: RequestHeader | None, now_ms: int) -> Step:
        if isinstance(outcome, Challenge):
            return Answered(_length_prefixed(outcome.token) if header is None else _answer(header, token=outcome.token))
        principal = user_principal(outcome.name)
        if self._renews is not None and self._renews[0] != principal:
            words = f"Cannot change principals during re-authentication from {self._renews[0]} to {principal}"
            return self._denied(Denied(words, shown=words), header)
        self._state = _State.DONE
        limit = self._rules.max_reauth_ms.get(self._mechanism_name, 0)
        lifetime = session_lifetime_ms(now_ms, outcome.expires_at_ms, limit)
        if header is not None:
            frame: bytes | bytearray = _answer(header, token=outcome.token, lifetime_ms=lifetime or 0)
        else:
            frame = _length_prefixed(outcome.token)
        return LoggedIn(frame, principal, self._mechanism_name, lifetime, outcome.by_token, outcome.claims)

    def _denied(self, denied: Denied, header: RequestHeader | None) -> Step:
        words = denied.shown
        if words is None:
            words = (
                f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism "
                f"{self._mechanism_name}"
            )
        frame = None if header is None else _answer(header, ErrorCode.sasl_authentication_failed, words)
        return self._ended(Refused(frame, f"{self._mechanism_name}: {denied.reason}"))

    def _ended(self, step: Refused | OutOfTurn | Closed) -> Step:
        self._state = _State.DONE
        self._mechanism = None
        return step


def _length_prefixed(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def _answer(
    header: RequestHeader,
    error: ErrorCode = ErrorCode.none,
    message: str = "",
    *,
    token: bytes = b"",
    lifetime_ms: int = 0,
) -> bytearray:
    return encode_response(
        ApiKey.SASL_AUTHENTICATE,
        header.api_version,
        header.correlation_id,
        {"error_code": int(error), "error_message": message, "auth_bytes": token, "session_lifetime": lifetime_ms},
    )
