"""Apache Kafka with a listener for every security protocol, and its own certificates and users.

with secured_kafka(directory) as kafka:
    kafka.settings["SASL_SSL SCRAM-SHA-512"]        # a client's settings, under Kafka's names
    kafka.bootstrap("SASL_SSL")
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.net.free_ports import free_port
from tests.reference.kafka import ReferenceKafka

USER, PASSWORD = "ann", 'it is "quoted"'
_MODULES: Final = "org.apache.kafka.common.security"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTENERS: Final = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def login(mechanism: str, password: str = PASSWORD) -> str:
    """JAAS line of Java's clients."""
    kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"{_MODULES}.{kind} required username={_quoted(USER)} password={_quoted(password)};"


@dataclass(frozen=True)
class Certificates:
    """An authority, a server's certificate for 127.0.0.1 (not for localhost), a client's, another authority."""

    directory: Path

    @property
    def authority(self) -> str:
        return str(self.directory / "authority.pem")

    @property
    def stranger(self) -> str:
        return str(self.directory / "stranger.pem")

    def store(self, name: str) -> str:
        """Key and certificates in one file, in a form for both Java's PEM stores and OpenSSL."""
        return str(self.directory / f"{name}-store.pem")

    def make(self) -> Certificates:
        self.directory.mkdir(parents=True)
        for name in ("authority", "stranger"):
            self._openssl(name, "-x509", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")
        signed = ("-x509", "-CA", self.authority, "-CAkey", str(self.directory / "authority.key"))
        self._openssl("server", *signed, "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1")
        self._openssl("client", *signed, "-subj", "/CN=client")
        return self

    def _openssl(self, name: str, *arguments: str) -> None:
        key, certificate = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        command = [*new, "-keyout", str(key), "-out", str(certificate), *arguments]
        subprocess.run(command, check=True, capture_output=True)
        Path(self.store(name)).write_text(key.read_text() + certificate.read_text())


@dataclass(frozen=True)
class SecuredKafka:
    kafka: ReferenceKafka
    certificates: Certificates
    ports: dict[str, int]

    def bootstrap(self, way: str) -> str:
        """`way` is a protocol, or protocol and mechanism."""
        return f"127.0.0.1:{self.ports[way.split()[0]]}"

    def settings(self, way: str, password: str = PASSWORD) -> dict[str, str]:
        """A client's settings with names that Java accepts too."""
        protocol, _, mechanism = way.partition(" ")
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.certificates.authority}
        if protocol == "SSL":
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificates.store("client")}
        if mechanism:
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login(mechanism, password)}
        return found


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    certificates = Certificates(directory / "certificates").make()
    ports = {name: free_port() for name in _LISTENERS}
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.store("server"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
    }
    for listener in ("sasl_ssl", "sasl_plaintext"):
        known = f"{_MODULES}.plain.PlainLoginModule required user_{USER}={_quoted(PASSWORD)};"
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = known.replace("\\", "\\\\")
        for mechanism in _MECHANISMS[1:]:
            scram = f"{_MODULES}.scram.ScramLoginModule required;"
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = scram
    users = [f"{name}=[name={USER},password={PASSWORD}]" for name in _MECHANISMS[1:]]
    kafka = ReferenceKafka(
        directory / "kafka",
        settings=settings,
        heap="512m",
        format_options=tuple(part for user in users for part in ("--add-scram", user)),
    )
    added = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    for setting in ("listeners", "advertised.listeners"):
        kafka.settings[setting] += f",{added}"
    kafka.settings["listener.security.protocol.map"] += "".join(f",{name}:{name}" for name in _LISTENERS)
    with kafka:
        yield SecuredKafka(kafka, certificates, {"PLAINTEXT": kafka.port, **ports})
