"""Three brokers that use TLS, SCRAM logins and ACLs among themselves and for clients, on guarded nodes of ZooKeeper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.certificates import HOSTS, Authority
from tests.support.cluster import RunningCluster
from tests.support.network import Network

MECHANISM: Final = "SCRAM-SHA-256"
USER: Final = "broker"
PASSWORD: Final = "sesame"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_GUARDED: Final = {
    "zookeeper.set.acl": "true",
    "zookeeper.digest.user": "headrace",
    "zookeeper.digest.password": "of the store",
}
SETTINGS: Final = {
    **_GUARDED,
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    f"listener.name.plaintext.{MECHANISM.lower()}.sasl.jaas.config": (
        f'{_MODULE} username="{USER}" password="{PASSWORD}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER}",
}


class SecuredCluster(RunningCluster):
    def __init__(self, directory: Path, *, network: Network | None = None) -> None:
        self.authority = Authority.make(directory / "certificates")
        super().__init__(directory, settings=SETTINGS, network=network, own=self._certificate)

    def _certificate(self, number: int) -> dict[str, str]:
        hosts = HOSTS if self.network is None else (*HOSTS, self.network.address(number))
        return self.authority.issue(f"broker-{number}", hosts=hosts).properties()

    def prepare(self) -> None:
        command = [sys.executable, "-m", "headrace.cli", "security", "add-user", USER]
        command += ["--data", str(self.directory / "first"), "--mechanism", MECHANISM]
        for name, value in {"zookeeper.connect": self.zookeeper.connect, **_GUARDED}.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, input=f"{PASSWORD}\n", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @property
    def client(self) -> dict[str, str | int]:
        return {
            **super().client,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.authority.certificate),
        }
