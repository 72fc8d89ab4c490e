"""PLAIN (RFC 4616): `[authorization id] NUL user NUL password`.

The users are in the configuration: `user_<name>="<password>"` in `sasl.jaas.config`. The comparison takes the same time
for every wrong password and for every unknown user (CVE-2021-38153).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from typing import Final

from headrace.security.sasl.mechanism import Accepted, Denied, denied_in_words

NAME: Final = "PLAIN"
_USER_OPTION: Final = "user_"
# Compared with the password for an unknown user, so that the check takes the same time.
_NO_PASSWORD: Final = os.urandom(32)


def users_of(options: Mapping[str, str]) -> dict[str, bytes]:
    """Passwords by user name, out of the options of PlainLoginModule."""
    return {
        key.removeprefix(_USER_OPTION): value.encode() for key, value in options.items() if key.startswith(_USER_OPTION)
    }


def client_token(user: str, password: str) -> bytes:
    return b"\0".join((b"", user.encode(), password.encode()))


class PlainServer:
    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users

    def evaluate(self, token: bytes) -> Accepted:
        try:
            fields = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise Denied("a PLAIN token that is not UTF-8") from error
        if len(fields) != 3:
            # Kafka stops counting at four.
            raise denied_in_words(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(fields), 4)}")
        authorization_id, user, password = fields
        if not user:
            raise denied_in_words("Authentication failed: username not specified")
        if not password:
            raise denied_in_words("Authentication failed: password not specified")
        expected = self._users.get(user)
        matches = hmac.compare_digest(password.encode(), _NO_PASSWORD if expected is None else expected)
        if expected is None or not matches:
            raise denied_in_words("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise denied_in_words(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Accepted(b"", user)
