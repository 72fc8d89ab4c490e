"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the messages, the server's side and the client's side.

    client first   n,[a=authorization id],n=user,r=client nonce[,tokenauth=true]
    server first   r=client nonce + server nonce,s=salt,i=iterations
    client final   c=base64 of the header of the first message,r=both nonces,p=proof
    server final   v=signature

The server checks that the nonce of the final message is exactly its own (CVE-2024-56128) and that `c=` repeats the
header that the client sent. librdkafka before 2.6.1, which Debian's kcat has, repeats the client nonce before both
nonces: the server takes that form too, because it is as exact. Kafka refuses it. The server refuses `m=`, because
RFC 5802 reserves it for extensions that must be understood. Kafka's extension `tokenauth=true` makes the name a
delegation token id. An unknown user gets a salt too, and fails at the final message like a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, Work, denied_in_words
from headrace.security.sasl.scram_credentials import ScramCredential, ScramMechanism, salted_password

_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+){_EXTENSIONS}")
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_NONCE_BYTES: Final = 24
# A server may ask for any number of iterations; more than this is an attack on the client, not a policy.
_MAX_CLIENT_ITERATIONS: Final = 1_000_000


def new_nonce() -> str:
    return base64.b64encode(os.urandom(_NONCE_BYTES)).decode()


def escape_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(escaped: str) -> str:
    return escaped.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise Denied("a SCRAM message that is not UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Denied("a SCRAM message with a value that is not base64") from error


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# The server


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A delegation token for a login: its owner, its expiry time, and the credential of its HMAC."""

    owner: str
    expires_at_ms: int
    credential: ScramCredential


# The credential of a user; for one that does not exist, a credential that no password fits.
FindUser = Callable[[ScramMechanism, str], ScramCredential]
# The same for a delegation token id. Derives keys, so it is slow.
FindToken = Callable[[ScramMechanism, str], TokenCredential]


class ScramServer:
    def __init__(
        self,
        mechanism: ScramMechanism,
        find_user: FindUser,
        find_token: FindToken,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self._mechanism = mechanism
        self._find_user = find_user
        self._find_token = find_token
        self._nonce = nonce
        self._exchange: _Exchange | None = None

    def evaluate(self, token: bytes) -> Challenge | Accepted | Work:
        if self._exchange is None:
            return self._first(_text(token))
        exchange, self._exchange = self._exchange, None
        return exchange.final(_text(token))

    def _first(self, message: str) -> Challenge | Work:
        first = _CLIENT_FIRST.fullmatch(message)
        if first is None:
            raise Denied("a SCRAM first message that is not in the form of RFC 5802")
        name = unescape_name(first["name"])
        authorization_id = unescape_name(first["authorization_id"] or "")
        extensions = dict(part.split("=", 1) for part in first["extensions"].split(",") if part)
        if authorization_id and authorization_id != name:
            raise denied_in_words(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if extensions.get("tokenauth", "").lower() == "true":
            return Work(lambda: self._begin_with_token(first, name))
        return self._begin(first, name, self._find_user(self._mechanism, name), None, by_token=False)

    def _begin_with_token(self, first: re.Match[str], token_id: str) -> Challenge:
        found = self._find_token(self._mechanism, token_id)
        return self._begin(first, found.owner, found.credential, found.expires_at_ms, by_token=True)

    def _begin(
        self,
        first: re.Match[str],
        owner: str,
        credential: ScramCredential,
        expires_at_ms: int | None,
        *,
        by_token: bool,
    ) -> Challenge:
        nonce = first["nonce"] + self._nonce()
        salt = base64.b64encode(credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={credential.iterations}"
        self._exchange = _Exchange(
            self._mechanism,
            credential,
            first["header"],
            first["bare"],
            server_first,
            first["nonce"],
            nonce,
            owner,
            expires_at_ms,
            by_token,
        )
        return Challenge(server_first.encode())


@dataclass(frozen=True, slots=True)
class _Exchange:
    """First half of a login; the final message must match it."""

    mechanism: ScramMechanism
    credential: ScramCredential
    header: str
    client_first_bare: str
    server_first: str
    client_nonce: str
    nonce: str
    owner: str
    expires_at_ms: int | None
    by_token: bool

    def final(self, message: str) -> Accepted:
        final = _CLIENT_FINAL.fullmatch(message)
        if final is None:
            raise Denied("a SCRAM final message that is not in the form of RFC 5802")
        if not (
            hmac.compare_digest(final["nonce"], self.nonce)
            or hmac.compare_digest(final["nonce"], self.client_nonce + self.nonce)
        ):
            raise Denied("a SCRAM final message with another nonce")
        if not hmac.compare_digest(_decoded(final["binding"]), self.header.encode()):
            raise Denied("a SCRAM final message with another header than the first one")
        proof = _decoded(final["proof"])
        algorithm, credential = self.mechanism.algorithm, self.credential
        if len(proof) != self.mechanism.hash_bytes or len(credential.stored_key) != self.mechanism.hash_bytes:
            raise Denied("a SCRAM proof of another length")
        signed = f"{self.client_first_bare},{self.server_first},{final['without_proof']}".encode()
        client_key = _xor(proof, hmac.digest(credential.stored_key, signed, algorithm))
        if not hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), credential.stored_key):
            raise Denied("a SCRAM proof of another password, or of an unknown user")
        signature = base64.b64encode(hmac.digest(credential.server_key, signed, algorithm))
        return Accepted(b"v=" + signature, self.owner, self.expires_at_ms, self.by_token)


# The client


class ScramClient:
    """One login: `first()`, then `final(server's first message)`, then `finish(server's final message)`."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, *, by_token: bool = False, nonce: str | None = None
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = new_nonce() if nonce is None else nonce
        self._bare = f"n={escape_name(user)},r={self._nonce}" + (",tokenauth=true" if by_token else "")
        self._expected = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Slow: it derives the keys of the password. Raises Denied for an invalid answer."""
        text = _text(server_first)
        first = _SERVER_FIRST.fullmatch(text)
        if first is None:
            raise Denied(f"a SCRAM answer that cannot be read: {text[:200]!r}")
        iterations = int(first["iterations"][:10])
        if not first["nonce"].startswith(self._nonce) or first["nonce"] == self._nonce:
            raise Denied("a SCRAM answer with another nonce")
        if not 1 <= iterations <= _MAX_CLIENT_ITERATIONS:
            raise Denied(f"a SCRAM answer that asks for {first['iterations'][:20]} iterations")
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, _decoded(first["salt"]), iterations)
        client_key = hmac.digest(salted, b"Client Key", mechanism.algorithm)
        without_proof = f"c=biws,r={first['nonce']}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        stored_key = hashlib.new(mechanism.algorithm, client_key).digest()
        proof = _xor(client_key, hmac.digest(stored_key, signed, mechanism.algorithm))
        server_key = hmac.digest(salted, b"Server Key", mechanism.algorithm)
        self._expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed, mechanism.algorithm))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def finish(self, server_final: bytes) -> None:
        """Raises Denied when the server does not know the password it checked."""
        if not self._expected or not hmac.compare_digest(server_final.split(b",")[0], self._expected):
            raise Denied("the broker does not know the password that it checked")
