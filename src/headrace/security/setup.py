"""What a secured cluster needs, made in one step: a certificate authority, certificates, an administrator, settings.

    ca.crt, ca.key              the authority: clients trust the first; the second issues more certificates
    broker-1.pem, …             key and certificate of a broker
    zookeeper.pem               key and certificate of ZooKeeper
    admin.pem                   key and certificate of the administrator, for listeners with `ssl.client.auth`
    broker-1.properties, …      the settings of a broker, for `headrace start broker-1.properties --data DIR`
    admin.password              the administrator's password
    client.properties           the administrator's login, for Kafka's tools, `headrace` and Java clients
    librdkafka.properties       the same in the names of librdkafka (kcat, confluent-kafka)

Clients log in with SCRAM over TLS at the listener CLIENTS. Brokers show each other their certificates at the listener
BROKERS, which needs no password. An authorizer is on: a new user may do nothing before an ACL allows it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.config.listeners import is_loopback
from headrace.config.properties import read_properties
from headrace.kernel.dataclass import dataclass
from headrace.security.principal import user_principal
from headrace.security.tls.authority import CannotIssue, CertificateAuthority, write_private

CLIENTS: Final = "CLIENTS"
BROKERS: Final = "BROKERS"
MECHANISM: Final = "SCRAM-SHA-512"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORITY_NAME: Final = "Headrace cluster authority"
# 144 bits in letters, digits, "-" and "_": no file format and no shell needs them quoted.
_PASSWORD_BYTES: Final = 18
# Of librdkafka.
_USERNAME: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"
CLIENTS_PORT: Final = 9092
BROKERS_PORT: Final = 19092
_ADMIN: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SecureSetup:
    """The files of one directory. `hosts` are the names and addresses in the brokers' certificates; clients connect to
    the first. `password` is the administrator's; it is in the files of clients and nowhere else."""

    directory: Path
    brokers: int
    hosts: tuple[str, ...]
    admin: str
    password: str
    port: int = CLIENTS_PORT
    """Of the first broker's listener CLIENTS; the others have the next ports."""
    inter_broker_port: int = BROKERS_PORT

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def client_properties(self) -> Path:
        return self.directory / "client.properties"

    @property
    def librdkafka_properties(self) -> Path:
        return self.directory / "librdkafka.properties"

    @property
    def zookeeper_keystore(self) -> Path:
        return self.directory / "zookeeper.pem"

    def keystore(self, number: int) -> Path:
        return self.directory / f"broker-{number}.pem"

    def broker_properties(self, number: int) -> Path:
        return self.directory / f"broker-{number}.properties"

    @property
    def password_file(self) -> Path:
        return self.directory / "admin.password"

    @property
    def bootstrap(self) -> str:
        """The addresses in the properties files of the brokers."""
        return ",".join(f"{self.hosts[0]}:{self.port + at}" for at in range(self.brokers))

    def addresses(self, number: int) -> dict[str, str]:
        """Where a broker listens: on loopback only if all hosts are loopback."""
        bound = "127.0.0.1" if all(map(is_loopback, self.hosts)) else ""
        ports = ((CLIENTS, self.port + number - 1), (BROKERS, self.inter_broker_port + number - 1))
        return {
            "listeners": ",".join(f"{name}://{bound}:{port}" for name, port in ports),
            "advertised.listeners": ",".join(f"{name}://{self.hosts[0]}:{port}" for name, port in ports),
        }

    def settings(self, number: int) -> dict[str, str]:
        """The security settings of a broker: everything but its id and its addresses."""
        brokers = (user_principal(f"CN=broker-{one}") for one in range(1, self.brokers + 1))
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{BROKERS}:SSL",
            "inter.broker.listener.name": BROKERS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(number)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join([user_principal(self.admin), *brokers]),
        }

    def client_settings(self) -> dict[str, str]:
        """The administrator's login in the names of Kafka's Java clients."""
        jaas = f'{_LOGIN_MODULE} required username="{self.admin}" password="{self.password}";'
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": jaas,
        }

    def librdkafka_settings(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": MECHANISM,
            _USERNAME: self.admin,
            _PASSWORD: self.password,
        }


def make_setup(
    directory: Path,
    *,
    brokers: int,
    hosts: Sequence[str],
    admin: str = "admin",
    port: int = CLIENTS_PORT,
    inter_broker_port: int = BROKERS_PORT,
) -> SecureSetup:
    """Writes all files into a new or empty directory. Raises CannotIssue, and leaves existing files unchanged."""
    if not _ADMIN.fullmatch(admin):
        raise CannotIssue(f"admin {admin!r}: use letters, digits, '.', '_' and '-' for the administrator's name")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise CannotIssue(f"{directory} is not empty: choose another directory, or move it away")
    except OSError as error:
        raise CannotIssue(f"{directory}: {error.strerror}") from None
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    setup = SecureSetup(directory.absolute(), brokers, tuple(hosts), admin, password, port, inter_broker_port)
    authority = CertificateAuthority.create(_AUTHORITY_NAME)
    write_private(setup.authority_key, authority.key)
    write_private(setup.authority, authority.certificate)
    setup.authority.chmod(0o644)
    _issue_for_servers(setup, authority)
    write_private(setup.directory / "admin.pem", authority.issue(admin).keystore)
    write_private(setup.password_file, f"{setup.password}\n")
    write_private(setup.client_properties, _properties(setup.client_settings()))
    # Last: a directory that has this file is complete.
    write_private(setup.librdkafka_properties, _properties(setup.librdkafka_settings()))
    return setup


def open_setup(directory: Path, *, brokers: int, hosts: Sequence[str]) -> SecureSetup:
    """Opens the result of `make_setup`, and adds certificates for new brokers. Raises CannotIssue."""
    login = directory / "librdkafka.properties"
    try:
        known = read_properties(login)
        setup = SecureSetup(directory.absolute(), brokers, tuple(hosts), known[_USERNAME], known[_PASSWORD])
    except OSError as error:
        raise CannotIssue(f"{login}: {error.strerror}") from None
    except KeyError as missing:
        raise CannotIssue(f"{login} has no {missing.args[0]}: `headrace security init` writes a new one") from None
    _issue_for_servers(setup, CertificateAuthority.load(setup.authority_key, setup.authority))
    return setup


def _issue_for_servers(setup: SecureSetup, authority: CertificateAuthority) -> None:
    if not setup.zookeeper_keystore.exists():
        write_private(setup.zookeeper_keystore, authority.issue("zookeeper", hosts=setup.hosts).keystore)
    for number in range(1, setup.brokers + 1):
        if not setup.keystore(number).exists():
            write_private(setup.keystore(number), authority.issue(f"broker-{number}", hosts=setup.hosts).keystore)
        if not setup.broker_properties(number).exists():
            own = {"broker.id": str(number), **setup.addresses(number), **setup.settings(number)}
            write_private(setup.broker_properties(number), _properties(own))


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
