"""How a blocking connection proves itself: TLS and SASL (PLAIN, SCRAM), read from Kafka's own setting names.

`Security.from_settings({"security.protocol": "SASL_SSL", ...})` takes the names a Java or librdkafka user already has.
Certificates are PEM (`ssl.ca.location`, or `ssl.truststore.location` with `ssl.truststore.type=PEM`): a JKS store
cannot be opened from Python, and the message says so.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.kernel.errors import ErrorCode, Refused

if TYPE_CHECKING:
    import ssl

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# A server may ask for any number of rounds; more than this is an attack on the client, not a policy.
_MOST_SCRAM_ROUNDS: Final = 1_000_000


def _wrong(message: str) -> Refused:
    return Refused(ErrorCode.invalid_config, message)


@dataclass(frozen=True)
class Security:
    """Picklable, because Spark carries it to the executors."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None
    check_hostname: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Security:
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise _wrong(f"security.protocol={protocol!r}: must be one of {', '.join(_PROTOCOLS)}")
        mechanism = username = password = ""
        if protocol.startswith("SASL"):
            mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "PLAIN")).upper()
            if mechanism != "PLAIN" and mechanism not in _SCRAM_HASHES:
                raise _wrong(f"sasl.mechanism={mechanism!r}: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
            username, password = _credentials(settings)
        return cls(
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            ca_file=settings.get("ssl.ca.location") or _pem(settings, "ssl.truststore"),
            certificate_file=settings.get("ssl.certificate.location") or _pem(settings, "ssl.keystore"),
            key_file=settings.get("ssl.key.location"),
            key_password=settings.get("ssl.key.password"),
            check_hostname=settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
        )

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def tls_context(self) -> ssl.SSLContext:
        # Loaded when needed: it is a third of what a short-lived planning process imports.
        import ssl

        context = ssl.create_default_context(cafile=self.ca_file)
        context.check_hostname = self.check_hostname
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        return context

    def authenticate(self, exchange: Callable[[bytes], bytes]) -> None:
        """Runs the mechanism; `exchange` sends our bytes and gives the server's."""
        if self.mechanism == "PLAIN":
            exchange(b"\0".join([b"", self.username.encode(), self.password.encode()]))
        else:
            _scram(self.username, self.password, _SCRAM_HASHES[self.mechanism], exchange)


def _pem(settings: Mapping[str, str], store: str) -> str | None:
    location = settings.get(f"{store}.location")
    if location and settings.get(f"{store}.type", "JKS").upper() != "PEM":
        raise _wrong(f"{store}.location={location!r}: only PEM files can be read here: set {store}.type=PEM")
    return location


def _credentials(settings: Mapping[str, str]) -> tuple[str, str]:
    if "sasl.username" in settings:
        return settings["sasl.username"], settings.get("sasl.password", "")
    jaas = settings.get("sasl.jaas.config", "")
    found = dict(re.findall(r"\b(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"", jaas))
    if set(found) != {"username", "password"}:
        raise _wrong("SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both")
    return found["username"], found["password"]


def _scram(username: str, password: str, algorithm: str, exchange: Callable[[bytes], bytes]) -> None:
    nonce = base64.b64encode(os.urandom(24)).decode()
    escaped = username.replace("=", "=3D").replace(",", "=2C")
    opening = f"n={escaped},r={nonce}"
    server_first = exchange(f"n,,{opening}".encode()).decode()
    fields = dict(part.split("=", 1) for part in server_first.split(",") if "=" in part)
    rounds = int(fields.get("i", "0"))
    if not fields.get("r", "").startswith(nonce) or not 1 <= rounds <= _MOST_SCRAM_ROUNDS:
        raise Refused(ErrorCode.sasl_authentication_failed, f"a SCRAM answer that cannot be right: {server_first!r}")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(fields["s"]), rounds)

    def sign(key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, algorithm)

    client_key = sign(salted, b"Client Key")
    closing = f"c=biws,r={fields['r']}"
    message = f"{opening},{server_first},{closing}".encode()
    signature = sign(hashlib.new(algorithm, client_key).digest(), message)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = exchange(f"{closing},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = base64.b64encode(sign(sign(salted, b"Server Key"), message)).decode()
    if not hmac.compare_digest(server_final.split(",")[0], f"v={expected}"):
        raise Refused(ErrorCode.sasl_authentication_failed, "the broker does not know the password it checked")
