"""The client's side of a login, for callers that wait and for callers on an event loop alike.

`client_tokens` is a generator: it yields our tokens and is sent the broker's. Deriving the keys of a password takes
milliseconds, so a caller on an event loop sends in a thread.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.security.sasl import oauthbearer, plain
from headrace.security.sasl.scram import ScramClient
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS

CLIENT_MECHANISMS: Final = (plain.NAME, *SCRAM_MECHANISMS, oauthbearer.NAME)


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """`by_token`: user name and password are the id and the HMAC of a delegation token. With OAUTHBEARER the password
    is the token."""

    mechanism: str
    username: str
    password: str
    by_token: bool = False

    def __repr__(self) -> str:  # a password must not reach a log
        return f"SaslCredentials({self.mechanism}, {self.username!r})"


def client_tokens(credentials: SaslCredentials) -> Generator[bytes, bytes, None]:
    """Raises Denied if the broker's tokens are invalid."""
    if credentials.mechanism == plain.NAME:
        yield plain.client_token(credentials.username, credentials.password)
        return
    if credentials.mechanism == oauthbearer.NAME:
        yield from oauthbearer.client_tokens(lambda: credentials.password)
        return
    mechanism = SCRAM_MECHANISMS[credentials.mechanism]
    client = ScramClient(mechanism, credentials.username, credentials.password, by_token=credentials.by_token)
    server_first = yield client.first()
    server_final = yield client.final(server_first)
    client.finish(server_final)
