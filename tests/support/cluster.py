"""Three broker processes and a real ZooKeeper server, which a test can kill, freeze and disconnect.

with RunningCluster(tmp_path) as cluster:
    cluster.brokers[1].kill()
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.net.free_ports import free_port
from headrace.testing.process import BrokerProcess
from tests.support.clock import wait_for
from tests.support.network import STORE, Network
from tests.support.zookeeper import ZooKeeperServer

SESSION_TIMEOUT_MS: Final = 3000
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "true",
}


class ClusterBroker(BrokerProcess):
    def pause(self) -> None:
        """SIGSTOP: the process is alive but does not run."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def kill_at_once(self) -> None:
        """SIGKILL, without waiting for the end. `kill` must follow."""
        if self.process is not None:
            self.process.kill()

    @property
    def is_up(self) -> bool:
        """Whether the test has started it and not stopped it. (It may have died.)"""
        return self.process is not None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class RunningCluster:
    """With a `network`, every broker has a network namespace of its own, and `network.cut` separates them. With
    `connect`, it uses a running ZooKeeper. `own` has settings of single brokers, by number. `within` is a command
    prefix of a broker."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        connect: str | None = None,
        own: Callable[[int], Mapping[str, str]] = lambda _: {},
        within: Callable[[int], Sequence[str]] = lambda _: (),
    ) -> None:
        self.network = network
        self._given_connect = connect
        self._own = own
        self._within = within
        self.directory = directory
        self.settings = {**SETTINGS, **(settings or {})}
        host = "127.0.0.1" if network is None else network.address(STORE)
        self.zookeeper = ZooKeeperServer(directory / "zookeeper", host=host)
        self.brokers: dict[int, ClusterBroker] = {}
        self._count = brokers

    @property
    def session_timeout_s(self) -> float:
        return int(self.settings["zookeeper.session.timeout.ms"]) / 1000

    def __enter__(self) -> RunningCluster:
        if self._given_connect is None:
            self.zookeeper.start()
        try:
            self.prepare()
            for number in range(1, self._count + 1):
                self.add_broker(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.resume()
            broker.kill()
        self.zookeeper.stop()

    def prepare(self) -> None:
        """Runs before the first broker starts. ZooKeeper is running."""

    @property
    def client(self) -> dict[str, str | int]:
        """Settings of a librdkafka client."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    def add_broker(self, number: int) -> ClusterBroker:
        connect = self._given_connect or self.zookeeper.connect
        own = {"broker.id": str(number), "zookeeper.connect": connect, **self.settings, **self._own(number)}
        directory, network = self.data_dir(number), self.network
        if network is None:
            broker = ClusterBroker(own, directory, port=free_port(), within=self._within(number))
        else:
            broker = ClusterBroker(
                own,
                directory,
                host=network.address(number),
                port=9092,
                within=[*network.command(number), *self._within(number)],
            )
        self.brokers[number] = broker
        return broker

    def data_dir(self, number: int) -> Path:
        return self.directory / f"broker-{number}"

    def heal(self) -> None:
        """Reconnects, resumes and restarts everything that a test cut, froze or killed."""
        if self.network is not None:
            self.network.mend()
        for broker in self.brokers.values():
            broker.resume()
            if not broker.is_up:
                broker.start()

    def kill_all(self) -> None:
        """Sends SIGKILL to all brokers before it waits for any."""
        for broker in self.brokers.values():
            broker.kill_at_once()
        for broker in self.brokers.values():
            broker.kill()

    def kill_store(self) -> None:
        self.zookeeper.kill()

    def start_store(self) -> None:
        self.zookeeper.start()

    def others(self, number: int) -> list[int]:
        return [other for other in self.brokers if other != number]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def admin(self) -> AdminClient:
        return AdminClient(self.client)

    def create_topic(
        self, name: str, partitions: int = 3, config: Mapping[str, str] | None = None, *, replicas: int = 3
    ) -> None:
        client = self.admin()
        futures = client.create_topics([NewTopic(name, partitions, replicas, config=dict(config or {}))])
        futures[name].result(60)

    def metadata(self, topic: str) -> dict[int, Any]:
        """Partition → its metadata, from any broker that answers."""
        last: Exception | None = None
        for broker in self.brokers.values():
            if not broker.is_up:
                continue
            client = AdminClient({**self.client, "bootstrap.servers": broker.bootstrap, "socket.timeout.ms": 3000})
            try:
                return dict(client.list_topics(topic, timeout=3).topics[topic].partitions)
            except Exception as error:
                last = error
        raise RuntimeError(f"no broker answers Metadata for {topic}: {last}")

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(wait_for(lambda: self._leader_or_none(topic, partition), f"a leader of {topic}-{partition}"))

    def _leader_or_none(self, topic: str, partition: int) -> int | None:
        try:
            leader = self.metadata(topic)[partition].leader
        except RuntimeError:
            return None
        return leader if leader > 0 else None

    def wait_in_sync(self, topic: str) -> None:
        def complete() -> bool:
            try:
                partitions = self.metadata(topic)
            except RuntimeError:
                return False
            return all(p.leader > 0 and len(p.isrs) == len(p.replicas) for p in partitions.values())

        wait_for(complete, f"all replicas of {topic} in sync")
