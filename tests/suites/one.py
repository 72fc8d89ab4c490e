"""Runs a command while one broker runs, for suites in other languages.

    python -m tests.suites.one -- env KGO_SEEDS=BOOTSTRAP KGO_TEST_RF=1 ./kgo.test
    python -m tests.suites.one --secured -- env KGO_SEEDS=BOOTSTRAP KGO_TEST_RF=1 KGO_TEST_TLS=ca:AUTHORITY \\
        KGO_TEST_SCRAM=USER:PASSWORD:512 ./kgo.test
    python -m tests.suites.one --secured -- env RDKAFKA_TEST_CONF=LIBRDKAFKA ./test-runner -Q

In the command, BOOTSTRAP stands for the address, and LIBRDKAFKA for a file with the settings of a librdkafka client.
With --secured the broker has TLS and SCRAM-SHA-512. Then AUTHORITY stands for the file of the certificate authority,
and USER and PASSWORD for the login.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headrace.net.free_ports import free_port
from headrace.testing import BrokerProcess
from tests.support.certificates import Authority


@dataclass(frozen=True)
class SecuredSuite:
    """TLS and SCRAM-SHA-512 for a suite: the settings of the broker, and those of the client."""

    authority: Authority

    user = "suite"
    password = "sesame"
    mechanism = "SCRAM-SHA-512"

    def prepare(self, directory: Path) -> dict[str, str]:
        """Adds the user to the data directory. Returns the settings of the broker."""
        add = ["security", "add-user", self.user, "--data", str(directory / "data"), "--mechanism", self.mechanism]
        subprocess.run(
            [sys.executable, "-m", "headrace.cli", *add], input=f"{self.password}\n", text=True, check=True, timeout=60
        )
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": self.mechanism,
            **self.authority.issue("broker").properties(),
        }

    def environment(self) -> dict[str, str]:
        return {
            "SUITE_CA": str(self.authority.certificate),
            "SUITE_USER": self.user,
            "SUITE_PASSWORD": self.password,
        }

    def librdkafka(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command while one broker runs.")
    parser.add_argument("--secured", action="store_true", help="Use TLS and SCRAM-SHA-512.")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="Setting of the broker.")
    parser.add_argument("command", nargs="+", help="The command, after --.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory, port = Path(name), free_port()
        suite = SecuredSuite(Authority.make(directory / "certificates")) if given.secured else None
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}", "group.initial.rebalance.delay.ms": "0"}
        settings |= dict(text.split("=", 1) for text in given.set)
        settings |= suite.prepare(directory) if suite is not None else {}
        client = {"bootstrap.servers": f"127.0.0.1:{port}", **(suite.librdkafka() if suite is not None else {})}
        file = directory / "librdkafka.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
        words = {"BOOTSTRAP": f"127.0.0.1:{port}", "LIBRDKAFKA": str(file)}
        if suite is not None:
            words |= {"AUTHORITY": str(suite.authority.certificate), "USER": suite.user, "PASSWORD": suite.password}
        command = list(given.command)
        for word, value in words.items():
            command = [part.replace(word, value) for part in command]
        broker = BrokerProcess(settings, directory / "data", port=port)
        try:
            return subprocess.run(command, check=False).returncode
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main())
