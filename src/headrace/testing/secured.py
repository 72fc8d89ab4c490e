"""A broker with TLS, SCRAM logins and an authorizer, in this process.

secured_headrace.add_user("ann", "secret")
Producer(secured_headrace.client("ann"))          # librdkafka's settings: address, authority, login
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.client.scram_users import scram_user
from headrace.controller.core.scram_changes import ScramUpsertion
from headrace.kernel.errors import ErrorCode
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.security.setup import BROKERS, CLIENTS, MECHANISM, SecureSetup, make_setup, open_setup
from headrace.testing.in_process import RunningBroker, temporary_directory

_HOSTS: Final = ("localhost", "127.0.0.1")
_ITERATIONS: Final = 4096


class UserError(ValueError):
    """The user does not exist, or the broker refused it."""


def make_certificates(directory: Path) -> None:
    """Writes a certificate authority and the certificates of brokers into a new directory."""
    make_setup(directory, brokers=1, hosts=_HOSTS)


class SecuredBroker(RunningBroker):
    """Users log in with SCRAM over TLS. `admin` may do everything, others what ACLs allow."""

    def __init__(self, setup: SecureSetup, settings: Mapping[str, str], data_dir: Path) -> None:
        self._setup = setup
        self._passwords: dict[str, str] = {}
        listeners = {"listeners": f"{CLIENTS}://localhost:0,{BROKERS}://localhost:0"}
        super().__init__({**listeners, **setup.settings(1), **settings}, data_dir)
        self.add_user(setup.admin, setup.password)

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority, which clients trust."""
        return self._setup.authority

    def add_user(self, name: str, password: str) -> None:
        """A SCRAM user. Raises UserError."""
        user = scram_user(name, MECHANISM, password, _ITERATIONS)
        mechanism = int(SCRAM_MECHANISMS[MECHANISM])
        change = ScramUpsertion(name, mechanism, user.iterations, user.salt, user.salted_password)
        ((_, error, message),) = self.run(self.broker.parts.gateway.controller.alter_scram_credentials([], [change]))
        if error is not ErrorCode.none:
            raise UserError(f"user {name!r} was not added: {message or error.name}")
        self._passwords[name] = password

    def client(self, user: str = "admin") -> dict[str, str]:
        """The settings of a librdkafka client that logs in as `user`."""
        if user not in self._passwords:
            raise UserError(f"there is no user {user!r}: add_user({user!r}, password) makes one")
        login = {"sasl.username": user, "sasl.password": self._passwords[user]}
        return {"bootstrap.servers": self.bootstrap, **self._setup.librdkafka_settings(), **login}


@contextmanager
def secured_broker(certificates: Path, settings: Mapping[str, str] | None = None) -> Iterator[SecuredBroker]:
    """`certificates`: the directory of `make_certificates`."""
    directory = temporary_directory()
    try:
        running = SecuredBroker(open_setup(certificates, brokers=1, hosts=_HOSTS), settings or {}, directory)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
