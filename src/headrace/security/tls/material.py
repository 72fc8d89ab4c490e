"""Private keys and certificates, from where Kafka's settings name them.

    ssl.keystore.type=PEM     a file with key and chain (ssl.keystore.location), or both as text (ssl.keystore.key,
                              ssl.keystore.certificate.chain); ssl.key.password opens an encrypted key
    ssl.keystore.type=PKCS12  a file with ssl.keystore.password
    ssl.keystore.type=JKS     Kafka's default. Java reads PKCS12 stores under this name too, and so do we; a real JKS
                              store is refused with the keytool command that converts it

Every problem is a `ConfigError` that names the key of the setting and the file, and never the content.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from headrace.config import ConfigError
from headrace.config.listener_security import StoreSettings
from headrace.kernel.dataclass import dataclass

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_BLOCK: Final = re.compile(rb"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.+?-----END (?P=kind)-----", re.DOTALL)
_CERTIFICATE: Final = b"CERTIFICATE"


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key with its certificate chain, the certificate of the key first."""

    key_pem: bytes
    """Not encrypted: it stays in memory."""
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def chain_pem(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)

    @contextmanager
    def as_file(self) -> Iterator[str]:
        """A path for OpenSSL, which takes a key only from a file: one in memory, where the system has that."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("key")
            path = f"/proc/self/fd/{descriptor}"
        else:
            descriptor, path = tempfile.mkstemp()  # readable by this user only
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(self.key_pem + self.chain_pem)
            yield path
        finally:
            os.close(descriptor)
            if not path.startswith("/proc/"):
                Path(path).unlink()


def load_key_material(settings: StoreSettings) -> KeyMaterial:
    """The key and chain of `ssl.keystore.*`. `ConfigError` when they cannot be read or do not belong together."""
    if settings.location is None:
        named = f"{settings.setting}.key"
        if settings.key is None or settings.certificates is None:
            other = "key" if settings.key is None else "certificate.chain"
            raise ConfigError(f"{settings.setting}.{other}", None, "must be set: key and certificates go together")
        _refuse_text_of_a_store(settings)
        return _from_pem(settings, named, (settings.key + "\n" + settings.certificates).encode())
    named = f"{settings.setting}.location"
    data = _read(named, settings.location)
    if _is_pem(settings, named, data):
        return _from_pem(settings, named, data)
    try:
        key, certificate, others = pkcs12.load_key_and_certificates(data, _bytes(settings.password))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_opened(settings, error) from None
    if key is None or certificate is None:
        raise ConfigError(named, settings.location, "the store holds no private key with its certificate")
    return _checked(named, settings.location, key, [certificate, *others])


def load_trusted(settings: StoreSettings) -> tuple[x509.Certificate, ...]:
    """The certificates of `ssl.truststore.*`; `ConfigError` when there are none or they cannot be read."""
    if settings.location is None:
        _refuse_text_of_a_store(settings)
        return tuple(_certificates(f"{settings.setting}.certificates", None, (settings.certificates or "").encode()))
    named = f"{settings.setting}.location"
    data = _read(named, settings.location)
    if _is_pem(settings, named, data):
        return tuple(_certificates(named, settings.location, data))
    try:
        key, certificate, others = pkcs12.load_key_and_certificates(data, _bytes(settings.password))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_opened(settings, error) from None
    found = ([] if certificate is None or key is not None else [certificate]) + list(others)
    if not found:
        raise ConfigError(named, settings.location, "the store holds no certificate")
    return tuple(found)


def pem_of(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _refuse_text_of_a_store(settings: StoreSettings) -> None:
    if settings.type != "PEM":
        raise ConfigError(f"{settings.setting}.type", settings.type, "must be PEM where the certificates are text")


def _read(named: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(named, location, f"the file cannot be read: {error.strerror}") from None


def _is_pem(settings: StoreSettings, named: str, data: bytes) -> bool:
    is_pem = data.lstrip().startswith(b"-----BEGIN") or _BLOCK.search(data) is not None
    if settings.type == "PEM" and not is_pem:
        raise ConfigError(named, settings.location, "is not PEM; a PKCS12 store needs the type PKCS12")
    if is_pem and settings.type != "PEM":
        raise ConfigError(f"{settings.setting}.type", settings.type, f"must be PEM, because {settings.location} is")
    if data.startswith(_JKS_MAGIC):
        raise ConfigError(
            named,
            settings.location,
            "is a JKS store, which only Java reads. Convert it: keytool -importkeystore -srckeystore "
            f"{settings.location} -destkeystore {settings.location}.p12 -deststoretype PKCS12, and set "
            f"{settings.setting}.type=PKCS12",
        )
    return is_pem


def _not_opened(settings: StoreSettings, error: Exception) -> ConfigError:
    if "password" in str(error).lower() or "mac" in str(error).lower():
        return ConfigError(f"{settings.setting}.password", None, f"does not open {settings.location}")
    return ConfigError(f"{settings.setting}.location", settings.location, "is not a PKCS12 store that can be read")


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _from_pem(settings: StoreSettings, named: str, data: bytes) -> KeyMaterial:
    where = settings.location
    keys = [found[0] for found in _BLOCK.finditer(data) if found["kind"].endswith(b"PRIVATE KEY")]
    if len(keys) != 1:
        what = "no private key" if not keys else f"{len(keys)} private keys"
        raise ConfigError(named, where, f"must hold one private key and its certificates, but holds {what}")
    is_encrypted = b"ENCRYPTED" in keys[0]
    password_key = settings.setting.removesuffix("keystore") + "key.password"
    # Kafka ignores a password that nothing needs, and so do we: the same setting may serve several listeners.
    password = _bytes(settings.key_password) if is_encrypted else None
    if is_encrypted and password is None:
        raise ConfigError(password_key, None, "must be set, because the private key is encrypted")
    try:
        key = load_pem_private_key(keys[0], password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if is_encrypted:
            raise ConfigError(password_key, None, f"does not open the private key of {named}") from None
        raise ConfigError(named, where, "the private key cannot be read") from None
    return _checked(named, where, key, _certificates(named, where, data))


def _certificates(named: str, where: str | None, data: bytes) -> list[x509.Certificate]:
    blocks = [found[0] for found in _BLOCK.finditer(data) if found["kind"].strip() == _CERTIFICATE]
    if not blocks:
        raise ConfigError(named, where, "holds no certificate")
    try:
        return [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError:
        raise ConfigError(named, where, "holds a certificate that cannot be read") from None


def _checked(
    named: str, where: str | None, key: PrivateKeyTypes, certificates: Sequence[x509.Certificate]
) -> KeyMaterial:
    """The chain with the certificate of the key in front. `ConfigError` when none of them belongs to the key."""
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    own = [one for one in certificates if _public(one) == public]
    if not own:
        raise ConfigError(named, where, "the private key does not belong to the certificate beside it")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyMaterial(pem, (own[0], *(one for one in certificates if one is not own[0])))


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
