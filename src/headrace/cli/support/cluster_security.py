"""Certificates, users and settings of `headrace up --secure`.

The files are those of `headrace security init`, in `security/` of the cluster's data directory. The first start creates
them, later starts reuse them. The brokers' ZooKeeper user owns ZooKeeper's nodes. The command adds the administrator
and the registry's user before the first broker starts. It does not set their passwords again later, because the user
may have changed them with kafka-configs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path
from typing import Final

from headrace.broker.first_users import write_users
from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.cli.support.service_security import ServiceSecurity
from headrace.client.scram_users import scram_user
from headrace.config import load_broker_config, read_properties
from headrace.kernel.errors import Fault
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.security.setup import BROKERS, CLIENTS, SecureSetup, make_setup, open_setup
from headrace.security.tls.authority import CannotIssue, write_private

_HOSTS: Final = ("127.0.0.1", "localhost")
_ZOOKEEPER_USER: Final = "headrace"


class ClusterSecurity:
    """Raises Failed if the files in `directory` cannot be created or read."""

    def __init__(self, directory: Path, brokers: int) -> None:
        try:
            is_new = not directory.exists() or not any(directory.iterdir())
            make = make_setup if is_new else open_setup
            self.setup: SecureSetup = make(directory, brokers=brokers, hosts=_HOSTS)
            password = directory / "zookeeper.password"
            if not password.exists():
                write_private(password, f"{secrets.token_urlsafe(18)}\n")
            self._zookeeper_password = password.read_text().strip()
            self.services = ServiceSecurity(self.setup)
        except CannotIssue as error:
            raise Failed(f"{error}") from None

    def zookeeper_settings(self, port: int) -> dict[str, str]:
        """TLS on ZooKeeper's only port, for clients with a certificate of the cluster's authority."""
        return {
            "secureClientPort": str(port),
            "secureClientPortAddress": _HOSTS[0],
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.clientAuth": "need",
            "ssl.keyStore.location": str(self.setup.zookeeper_keystore),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(self.setup.authority),
            "ssl.trustStore.type": "PEM",
        }

    def settings(self, number: int, clients_port: int, brokers_port: int) -> dict[str, str]:
        """Settings of a broker besides its id and ZooKeeper's address."""
        ports = ((CLIENTS, clients_port), (BROKERS, brokers_port))
        return {
            "listeners": ",".join(f"{name}://{_HOSTS[0]}:{port}" for name, port in ports),
            "zookeeper.set.acl": "true",
            "zookeeper.digest.user": _ZOOKEEPER_USER,
            "zookeeper.digest.password": self._zookeeper_password,
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": str(self.setup.keystore(number)),
            "zookeeper.ssl.truststore.location": str(self.setup.authority),
            "zookeeper.ssl.truststore.type": "PEM",
            **self.setup.settings(number),
        }

    def add_users(self, broker_file: Path, data: Path) -> None:
        """Adds the administrator and the registry's user unless the cluster has them already."""
        setup = self.setup
        config = load_broker_config({**read_properties(broker_file), "log.dirs": str(data)})
        # kazoo's first attempts fail while ZooKeeper starts.
        logging.getLogger("headrace").addHandler(logging.NullHandler())
        users = [scram_user(setup.admin, mechanism, setup.password, 4096) for mechanism in SCRAM_MECHANISMS]
        users += self.services.users()
        try:
            asyncio.run(write_users(config, users, keep_existing=True))
        except Fault as fault:
            raise Failed(f"cannot add the user {setup.admin}: {fault.message}") from None

    def explanation(self, bootstrap: str, api: str) -> list[str]:
        """How to connect: one line for each of the usual clients."""
        setup = self.setup
        clients, librdkafka = setup.client_properties, setup.librdkafka_properties
        return [
            f"TLS, SCRAM and ACLs are on; user {setup.admin}, password in {setup.password_file}",
            f"  headrace        headrace topics ls -b {bootstrap} --command-config {clients}",
            f"  Kafka's tools   bin/kafka-topics.sh --bootstrap-server {bootstrap} --command-config {clients} --list",
            f"  kcat            kcat -b {bootstrap} -F {librdkafka} -L",
            f"  Java            the properties in {clients}",
            f"  confluent-kafka the properties in {librdkafka}",
            f"  curl            curl --cacert {setup.authority} -u {setup.admin} {api}/topics",
            f"  Spark           .option('kafka.<name>', value) for each property in {clients}",
        ]
