"""What a SASL mechanism offers the login: it takes the client's tokens one after the other and gives an outcome.

    Challenge   the exchange goes on with this token
    Accepted    the client has proved its name
    Work        the outcome needs a slow calculation or a file; the caller runs it in a thread

A mechanism raises `Denied` when the login fails. It serves one login of one connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.kernel.dataclass import dataclass


class Denied(Exception):
    """The login fails. `shown` is the sentence for the client; None gives Kafka's general sentence, which never says
    whether the user exists. `reason` is for the broker's log."""

    def __init__(self, reason: str, *, shown: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown


def denied_in_words(sentence: str) -> Denied:
    """A login that fails with a sentence that the client may read."""
    return Denied(sentence, shown=sentence)


@dataclass(frozen=True, slots=True)
class Challenge:
    token: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """`by_token`: the login used a delegation token. `expires_at_ms`: the end of the credential, if it has one."""

    token: bytes
    name: str
    expires_at_ms: int | None = None
    by_token: bool = False
    claims: tuple[str, ...] = ()
    """Claims of a bearer token that may make the client a member of roles, as principals."""


@dataclass(frozen=True, slots=True)
class Work:
    run: Callable[[], Challenge | Accepted]


Outcome = Challenge | Accepted | Work


class ServerMechanism(Protocol):
    def evaluate(self, token: bytes) -> Outcome:
        """The outcome of the client's next token. Raises Denied."""
        ...
