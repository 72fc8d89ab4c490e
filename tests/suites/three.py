"""Runs a command while three brokers run, for suites in other languages and for suites that expect a cluster.

    python -m tests.suites.three -- env KGO_SEEDS=BOOTSTRAP ./kgo.test       # three of Headrace and a ZooKeeper server
    python -m tests.suites.three --on kafka -- ...                           # three nodes of Apache Kafka 4.3.0
    python -m tests.suites.three --ports 9092 9095 9098 --first-id 0 -- ...  # where a suite looks for them

In the command, BOOTSTRAP stands for the three addresses and BROKER1 to BROKER3 for one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.net.free_ports import free_port
from tests.reference.kafka import ReferenceKafka
from tests.support.cluster import ClusterBroker
from tests.support.zookeeper import ZooKeeperServer

# `min.insync.replicas` stays 1: many suites write to topics of one replica.
SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
BROKERS = 3


@contextlib.contextmanager
def three_brokers(
    directory: Path,
    *,
    on: str = "headrace",
    settings: Mapping[str, str] | None = None,
    ports: Sequence[int] = (),
    first_id: int = 1,
    host: str = "127.0.0.1",
) -> Iterator[list[str]]:
    """Their addresses. The brokers stop at the end of the block."""
    chosen = list(ports) or [free_port() for _ in range(BROKERS)]
    assert len(chosen) == BROKERS, f"{len(chosen)} ports for {BROKERS} brokers"
    start = _kafka if on == "kafka" else _headrace
    with start(directory, {**SETTINGS, **(settings or {})}, dict(enumerate(chosen, first_id)), host):
        yield [f"{host}:{port}" for port in chosen]


@contextlib.contextmanager
def _headrace(directory: Path, settings: Mapping[str, str], ports: Mapping[int, int], host: str) -> Iterator[None]:
    def start(number: int) -> ClusterBroker:
        own = {
            "broker.id": str(number),
            "zookeeper.connect": zookeeper.connect,
            "advertised.listeners": f"PLAINTEXT://{host}:{ports[number]}",
        }
        return ClusterBroker({**settings, **own}, directory / f"broker-{number}", port=ports[number])

    zookeeper = ZooKeeperServer(directory / "zookeeper")
    zookeeper.start()
    running: list[ClusterBroker] = []
    try:
        with ThreadPoolExecutor(BROKERS) as together:
            running.extend(together.map(start, ports))
        yield
    finally:
        for broker in running:
            broker.stop()
        zookeeper.stop()


@contextlib.contextmanager
def _kafka(directory: Path, settings: Mapping[str, str], ports: Mapping[int, int], host: str) -> Iterator[None]:
    controllers = {number: free_port() for number in ports}
    nodes = [ReferenceKafka(directory / f"kafka-{n}", settings=dict(settings), node_id=n) for n in ports]
    for node, (number, port) in zip(nodes, ports.items(), strict=True):
        node.port = port
        node.settings |= {
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{at}" for n, at in controllers.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[number]}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        }
        node.format()
    try:
        with ThreadPoolExecutor(BROKERS) as together:
            list(together.map(ReferenceKafka.start, nodes))
        yield
    finally:
        for node in nodes:
            node.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command while three brokers run.")
    parser.add_argument("--on", choices=("headrace", "kafka"), default="headrace")
    parser.add_argument(
        "--ports", nargs=BROKERS, type=int, default=(), help="Ports of the brokers. Default: free ports."
    )
    parser.add_argument("--host", default="127.0.0.1", help="Host name that the brokers advertise.")
    parser.add_argument("--first-id", type=int, default=1, help="Id of the first broker. The others use the next ids.")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="Setting of every broker.")
    parser.add_argument("--keep", type=Path, help="Directory that keeps the data and logs.")
    parser.add_argument("command", nargs="+", help="The command, after --.")
    given = parser.parse_args()
    settings = dict(text.split("=", 1) for text in given.set)
    with contextlib.ExitStack() as stack:
        directory = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        brokers = three_brokers(
            directory, on=given.on, settings=settings, ports=given.ports, first_id=given.first_id, host=given.host
        )
        addresses = stack.enter_context(brokers)
        words = {"BOOTSTRAP": ",".join(addresses)} | {f"BROKER{n}": at for n, at in enumerate(addresses, 1)}
        command = []
        for part in given.command:
            for word, address in words.items():
                part = part.replace(word, address)
            command.append(part)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
