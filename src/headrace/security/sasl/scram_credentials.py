"""SCRAM credentials (RFC 5802): what a broker stores instead of a password.

Kafka's text form stands in the store and in `kafka-configs`: `salt=…,stored_key=…,server_key=…,iterations=4096`, the
values in base64. Neither key gives the password; the stored key alone does not allow a login.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from headrace.kernel.dataclass import dataclass

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
_SALT_BYTES: Final = 24
_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})


class ScramMechanism(IntEnum):
    """Kafka's numbers in the APIs 50 and 51."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def title(self) -> str:
        return _TITLES[self]

    @property
    def algorithm(self) -> str:
        return _ALGORITHMS[self]

    @property
    def hash_bytes(self) -> int:
        return _HASH_BYTES[self]


_TITLES: Final = {ScramMechanism.SHA_256: "SCRAM-SHA-256", ScramMechanism.SHA_512: "SCRAM-SHA-512"}
_ALGORITHMS: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}
_HASH_BYTES: Final = {ScramMechanism.SHA_256: 32, ScramMechanism.SHA_512: 64}
SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {title: mechanism for mechanism, title in _TITLES.items()}


class BadCredential(ValueError):
    """A text that is not a SCRAM credential. The message never repeats the text."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:  # keys must not reach a log
        return f"ScramCredential(iterations={self.iterations})"


def new_salt() -> bytes:
    return os.urandom(_SALT_BYTES)


def salted_password(mechanism: ScramMechanism, password: str | bytes, salt: bytes, iterations: int) -> bytes:
    """Slow by design (about 2 ms for 4096 iterations): not for the event loop."""
    secret = password.encode() if isinstance(password, str) else password
    return hashlib.pbkdf2_hmac(mechanism.algorithm, secret, salt, iterations)


def credential_from_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    client_key = hmac.digest(salted, b"Client Key", mechanism.algorithm)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.algorithm, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.algorithm),
        iterations=iterations,
    )


def credential_for(
    mechanism: ScramMechanism, password: str | bytes, *, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """Slow by design, as `salted_password`."""
    salt = new_salt() if salt is None else salt
    return credential_from_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def format_credential(credential: ScramCredential) -> str:
    return (
        f"salt={_base64(credential.salt)},stored_key={_base64(credential.stored_key)},"
        f"server_key={_base64(credential.server_key)},iterations={credential.iterations}"
    )


def parse_credential(text: str) -> ScramCredential:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if set(fields) != _FIELDS or not fields["iterations"].isascii() or not fields["iterations"].isdigit():
        raise BadCredential("a SCRAM credential has the fields salt, stored_key, server_key and iterations")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
    except binascii.Error as error:
        raise BadCredential("a field of a SCRAM credential is not base64") from error
    return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class FakeSalts:
    """Salts for users that do not exist: the same user gets the same salt from every broker of a cluster, before and
    after a restart, so a client cannot tell an unknown user from a wrong password.

    `secret` is known to the brokers of one cluster only.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """A credential that no password fits."""
        salt = hmac.digest(self._secret, f"{mechanism.title}\0{user}".encode(), "sha512")[:_SALT_BYTES]
        nothing = os.urandom(mechanism.hash_bytes)
        return ScramCredential(salt, nothing, nothing, MIN_ITERATIONS)
