"""A certificate authority of one's own: what `headrace security init` makes and issues certificates from.

Keys are P-256: an RSA signature costs a broker about ten times as much in every handshake. Files with a private key are
readable by their owner only. An existing file is never written over.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.kernel.dataclass import dataclass

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 397  # what browsers and auditors accept at most
# Clocks of other machines may be behind.
_BEFORE_NOW: Final = datetime.timedelta(hours=1)


class CannotIssue(Exception):
    """One sentence that names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its certificate chain, both as PEM text."""

    key: str
    chain: str

    @property
    def keystore(self) -> str:
        """Both in one text, as `ssl.keystore.type=PEM` reads them from a file."""
        return self.key + self.chain


class CertificateAuthority:
    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str, days: int = AUTHORITY_DAYS) -> CertificateAuthority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _dated(days)
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, key_file: Path, certificate_file: Path) -> CertificateAuthority:
        """Raises CannotIssue."""
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except OSError as error:
            raise CannotIssue(f"{error.filename}: {error.strerror}") from None
        except (ValueError, TypeError) as error:
            raise CannotIssue(f"{key_file} and {certificate_file} are not a key and a certificate: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CannotIssue(f"{key_file} is not the key of the certificate in {certificate_file}")
        return cls(key, certificate)

    @property
    def certificate(self) -> str:
        return _pem(self._certificate)

    @property
    def key(self) -> str:
        return _key_pem(self._key)

    def issue(self, common_name: str, *, hosts: Sequence[str] = (), days: int = CERTIFICATE_DAYS) -> KeyPair:
        """A key with a certificate for a client, or for a server of these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _dated(days)
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_key_pem(key), _pem(builder.sign(self._key, hashes.SHA256())) + self.certificate)


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner may read. Raises CannotIssue when there is one already."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CannotIssue(f"{path} exists already: choose another directory, or move it away") from None
    except OSError as error:
        raise CannotIssue(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _dated(days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE_NOW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
