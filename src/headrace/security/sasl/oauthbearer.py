"""OAUTHBEARER (RFC 7628): the client sends a token, the server checks it.

    n,[a=authorization id],^Akey=value^A…auth=Bearer <token>^A^A        ^A is the byte 1

A token that is refused is answered with JSON; the client confirms with ^A, and the login fails with the same JSON, as
in Kafka. The name is the token's subject, and the session ends with the token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, Work, denied_in_words
from headrace.security.sasl.scram import unescape_name

NAME: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_INITIAL: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[^=,\x00]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01",
    re.DOTALL,
)
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-._~+/A-Za-z0-9]+=*)")
_CONFIRMED: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class Bearer:
    """Claims of a checked token."""

    name: str
    expires_at_ms: int
    claims: tuple[str, ...] = ()
    """Claims that may make the client a member of roles, as principals."""


class BadToken(Exception):
    """A token that is refused. The reason is for the broker's log; the client gets `invalid_token`."""


# Checks a token; raises BadToken. It may be slow: keys may have to be fetched.
CheckToken = Callable[[str], Bearer]


def client_message(token: str) -> bytes:
    """The first message of a client."""
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()


def client_tokens(find_token: Callable[[], str]) -> Generator[bytes, bytes, None]:
    """The client's side of the login. A broker that refuses the token answers with JSON, which the client confirms."""
    refusal = yield client_message(find_token())
    if refusal:
        yield _CONFIRMED


class OAuthBearerServer:
    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refusal: str | None = None

    def evaluate(self, token: bytes) -> Challenge | Accepted | Work:
        if self._refusal is not None:
            if token == _CONFIRMED:
                raise Denied("the client has confirmed the refusal of its token", shown=self._refusal)
            self._refusal = None
        try:
            message = token.decode()
        except UnicodeDecodeError as error:
            raise Denied("an OAUTHBEARER message that is not UTF-8") from error
        initial = _INITIAL.fullmatch(message)
        if initial is None:
            raise Denied("an OAUTHBEARER message that is not in the form of RFC 7628")
        pairs = dict(pair.split("=", 1) for pair in initial["pairs"].split(_SEPARATOR) if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise Denied("an OAUTHBEARER message without 'auth=Bearer <token>'")
        authorization_id = unescape_name(initial["authorization_id"] or "")
        return Work(lambda: self._checked(bearer["token"], authorization_id))

    def _checked(self, token: str, authorization_id: str) -> Challenge | Accepted:
        try:
            bearer = self._check(token)
        except BadToken:
            self._refusal = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return Challenge(self._refusal.encode())
        if authorization_id and authorization_id != bearer.name:
            raise denied_in_words(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({bearer.name})"
            )
        return Accepted(b"", bearer.name, bearer.expires_at_ms, claims=bearer.claims)
