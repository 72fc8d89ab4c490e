"""Certificate authorities and certificates, created when a test runs.

authority = Authority.make(directory)
broker = authority.issue("broker", hosts=("localhost", "127.0.0.1"))
broker.properties()            # ssl.* keys of a listener: keystore and truststore as PEM files
authority.certificate          # the file that clients trust
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_PURPOSES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_A_DAY: Final = datetime.timedelta(days=1)


def distinguished_name(text: str) -> x509.Name:
    """Parses `erin` or `CN=erin,O=Other` (last part first, as in RFC 2253)."""
    if "=" not in text:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    return x509.Name.from_rfc4514_string(text)


def make_key(*, rsa_bits: int | None = None) -> PrivateKey:
    """P-256, because it is fast. RSA if the test is about RSA."""
    if rsa_bits is not None:
        return rsa.generate_private_key(public_exponent=65537, key_size=rsa_bits)
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Issued:
    """A certificate with its private key, as files."""

    directory: Path
    name: str
    key: PrivateKey
    x509: x509.Certificate
    authority: Authority

    @property
    def certificate(self) -> Path:
        """PEM: the certificate and the authority that signed it."""
        return self.directory / f"{self.name}.crt"

    @property
    def private_key(self) -> Path:
        return self.directory / f"{self.name}.key"

    @property
    def keystore(self) -> Path:
        """PEM: the key and the chain in one file, as ssl.keystore.type=PEM of Kafka expects."""
        return self.directory / f"{self.name}.pem"

    def encrypted_keystore(self, password: str) -> Path:
        path = self.directory / f"{self.name}.encrypted.pem"
        path.write_bytes(_key_pem(self.key, password) + self.certificate.read_bytes())
        return path

    def pkcs12(self, password: str) -> Path:
        path = self.directory / f"{self.name}.p12"
        encryption = BestAvailableEncryption(password.encode())
        authorities = [self.authority.x509]
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", self.key, self.x509, authorities, encryption))
        return path

    def properties(self, prefix: str = "") -> dict[str, str]:
        """Settings of a broker's listener, or of a Java client, that shows this certificate and trusts its
        authority.
        """
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.keystore),
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.authority.certificate),
        }


@dataclass(frozen=True)
class Authority:
    directory: Path
    key: PrivateKey
    x509: x509.Certificate

    @classmethod
    def make(cls, directory: Path, name: str = "Test Authority") -> Authority:
        directory.mkdir(parents=True, exist_ok=True)
        key = make_key()
        subject = distinguished_name(name)
        now = datetime.datetime.now(datetime.UTC)
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _A_DAY)
            .not_valid_after(now + 365 * _A_DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        made = cls(directory, key, built)
        made.certificate.write_bytes(_pem(built))
        return made

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def pem(self) -> str:
        return self.certificate.read_text()

    def issue(
        self,
        name: str,
        *,
        subject: str | None = None,
        hosts: Sequence[str] = HOSTS,
        days: float = 90,
        begins_in_days: float = -1,
        key: PrivateKey | None = None,
    ) -> Issued:
        """A certificate for `subject` (default `name`), for servers and clients, valid from `begins_in_days`
        until `days` from now. Its files are named after `name`. Issuing the same name again replaces them."""
        key = make_key() if key is None else key
        now = datetime.datetime.now(datetime.UTC)
        built = (
            x509.CertificateBuilder()
            .subject_name(distinguished_name(subject or name))
            .issuer_name(self.x509.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins_in_days * _A_DAY)
            .not_valid_after(now + days * _A_DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(_PURPOSES),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        issued = Issued(self.directory, name, key, built.sign(self.key, hashes.SHA256()), self)
        chain = _pem(issued.x509) + _pem(self.x509)
        issued.certificate.write_bytes(chain)
        issued.private_key.write_bytes(_key_pem(key))
        # Replaced atomically: a broker may read it at any moment.
        fresh = issued.keystore.with_suffix(".new")
        fresh.write_bytes(_key_pem(key) + chain)
        fresh.chmod(0o600)
        fresh.replace(issued.keystore)
        return issued


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: PrivateKey, password: str | None = None) -> bytes:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
