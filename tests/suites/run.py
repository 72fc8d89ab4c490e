"""Runs a client's own integration suite, from that client's sources, against a broker.

    python -m tests.suites.run kafka-python                       # its source package, fetched from PyPI once
    python -m tests.suites.run aiokafka --source DIR              # its repository: no source package has its tests
    python -m tests.suites.run kafka-python --on kafka            # the same on Apache Kafka 4.3.0
    python -m tests.suites.run kafka-python --brokers 3           # three of them, and a ZooKeeper server
    python -m tests.suites.run kafka-python --secured             # through TLS and SCRAM-SHA-512

This module lists the files to run. FINDINGS.md lists each test that is left out, with its reason. Options after `--` go
to pytest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.net.free_ports import free_port
from headrace.testing import BrokerProcess
from tests.reference.kafka import ReferenceKafka
from tests.suites.one import SecuredSuite
from tests.suites.three import BROKERS, three_brokers
from tests.support.certificates import Authority

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "suites"


@dataclass(frozen=True)
class Suite:
    """A client's tests: their source, the files to run, and the plugin that selects the broker."""

    client: str
    plugin: str
    files: tuple[str, ...]
    settings: dict[str, str]
    package: str | None = None
    version: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def source(self) -> Path:
        """The unpacked source package, fetched once."""
        if self.package is None:
            raise SystemExit(
                f"the source packages of {self.client} hold no tests: give its repository with --source DIR"
            )
        name = f"{self.package.replace('-', '_')}-{self.version}"
        place = CACHE / name
        if not place.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            fetch = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d", str(CACHE)]
            wanted = f"{self.package}=={self.version}"
            subprocess.run([sys.executable, "-m", "pip", *fetch, wanted], check=True, timeout=180)
            with tarfile.open(CACHE / f"{name}.tar.gz") as archive:
                archive.extractall(CACHE, filter="data")
        # Python has its own package named `test`, which takes precedence over a folder without `__init__.py`.
        (place / "test" / "__init__.py").touch()
        return place

    def left_out(self) -> list[str]:
        """The tests in FINDINGS.md under this client's name."""
        for section in (HERE / "FINDINGS.md").read_text().split("\n## ")[1:]:
            if section.startswith(f"{self.client} "):
                return re.findall(r"^\| (test_\w+) \|", section, flags=re.MULTILINE)
        raise SystemExit(f"FINDINGS.md has no section about {self.client}")


KAFKA_PYTHON = Suite(
    "kafka-python",
    "kafka_python_on_headrace",
    tuple(f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")),
    {"num.partitions": "4", "broker.id": "0"},
    package="kafka-python",
    version="3.0.12",
    environment={"KAFKA_VERSION": "4.2.0"},
    options=("--timeout", "120"),
)
AIOKAFKA = Suite(
    "aiokafka",
    "aiokafka_on_headrace",
    tuple(
        f"tests/test_{name}.py"
        for name in (
            "admin", "client", "conn", "consumer", "coordinator", "fetcher", "message_accumulator", "pep492",
            "producer", "sender", "transactional_consumer", "transactional_producer",
        )
    ),
    {"num.partitions": "2"},
    options=("--timeout", "150", "--docker-image", "headrace:2.13_4.3.0", "--no-pull", "-m", "not ssl"),
)  # fmt: skip
SUITES = {suite.client: suite for suite in (KAFKA_PYTHON, AIOKAFKA)}


@contextlib.contextmanager
def broker_for(
    suite: Suite, on: str, directory: Path, brokers: int = 1, secured: SecuredSuite | None = None
) -> Iterator[str]:
    """The address of a broker that runs as long as the suite."""
    node_id = int(suite.settings.get("broker.id", "1"))
    settings = {name: value for name, value in suite.settings.items() if name != "broker.id"}
    if brokers == BROKERS:
        with three_brokers(directory, on=on, settings=settings, first_id=node_id) as addresses:
            yield addresses[0]
        return
    if on == "kafka":
        with ReferenceKafka(directory / "kafka", settings=settings, node_id=node_id) as kafka:
            yield kafka.bootstrap
        return
    port = free_port()
    if secured is not None:
        settings |= secured.prepare(directory)
    # kafka-python's tests expect a configured advertised address.
    settings = {**settings, "broker.id": str(node_id), "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    running = BrokerProcess(settings, directory / "data", port=port)
    try:
        yield running.bootstrap
    finally:
        running.stop()


def run(
    suite: Suite,
    directory: Path,
    *,
    source: Path | None = None,
    on: str = "headrace",
    brokers: int = 1,
    secured: bool = False,
    more: tuple[str, ...] = (),
    output: int | None = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Runs the suite in a Python process. The result has its output. With None the output is shown directly."""
    root = source or suite.source()
    left_out = suite.left_out()
    security = SecuredSuite(Authority.make(directory / "certificates")) if secured else None
    with broker_for(suite, on, directory, brokers, security) as address:
        environment = os.environ | suite.environment
        environment |= {"PYTHONPATH": f"{root}:{HERE}", "KAFKA_URI": f"kafka://{address}"}
        environment["KAFKA_REPLICAS"] = str(brokers)
        environment |= security.environment() if security is not None else {}
        chosen = ["-k", " and ".join(f"not {name}" for name in left_out)] if left_out else []
        plugins = ["-p", suite.plugin, "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(root)]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *suite.options, *chosen, "--tb=short", *more]
        return subprocess.run(
            [*command, *suite.files], cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a client's own integration suite against a broker.")
    parser.add_argument("client", choices=SUITES)
    parser.add_argument("--source", type=Path, help="Source tree of the client, instead of its package.")
    parser.add_argument("--on", choices=("headrace", "kafka"), default="headrace")
    parser.add_argument("--brokers", type=int, choices=(1, BROKERS), default=1)
    parser.add_argument("--secured", action="store_true", help="Use TLS and SCRAM-SHA-512; only kafka-python.")
    parser.add_argument("--files", nargs="+", help="Run only these files of the suite.")
    parser.add_argument("more", nargs="*", help="Options for pytest, after --.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source = arguments.source and arguments.source.resolve()
        suite = SUITES[arguments.client]
        if arguments.files:
            suite = replace(suite, files=tuple(arguments.files))
        more = tuple(arguments.more)
        place = {"source": source, "on": arguments.on, "brokers": arguments.brokers, "secured": arguments.secured}
        return run(suite, Path(directory), **place, more=more, output=None).returncode


if __name__ == "__main__":
    sys.exit(main())
