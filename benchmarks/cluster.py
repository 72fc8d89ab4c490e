"""Three Headrace brokers and three of Apache Kafka: replicated writes, failover, start, memory, many partitions.

Headrace runs with its ZooKeeper server, Kafka as three combined KRaft nodes. Sessions have six seconds on both sides.
"""

from __future__ import annotations

import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from benchmarks import load
from benchmarks.load import CREATE_TOPICS, METADATA, PRODUCE, PRODUCE_VERSION, Wire
from benchmarks.report import Row
from headrace.net.free_ports import free_port
from headrace.wire import codec
from tests.reference.kafka import ReferenceKafka
from tests.support.cluster import RunningCluster

SESSION_MS = "6000"
ROWS = {
    "produce": Row("produce, 100 KB batches, acks=all, RF 3", "MB/s", 1.0),
    "cpu": Row("CPU of the three brokers per GB produced at RF 3", "s/GB", None, higher_is_better=False),
    "p50": Row("acks=all latency at RF 3, p50", "ms", 1.0, higher_is_better=False),
    "p99": Row("acks=all latency at RF 3, p99", "ms", 1.0, higher_is_better=False),
    "failover": Row("kill -9 of a leader until its partition accepts writes again", "s", 1.0, higher_is_better=False),
    "start": Row("start of three brokers (and ZooKeeper) until they know each other", "s", 0.5, higher_is_better=False),
    "memory": Row("resident memory of the three brokers, after the load", "MB", 0.2, higher_is_better=False),
    "partitions": Row("500 partitions × RF 3 created, all in sync", "s", 1.0, higher_is_better=False),
}


class Cluster(Protocol):
    name: str
    ports: dict[int, int]

    def start(self) -> None: ...
    def kill(self, broker: int) -> None: ...
    def pids(self) -> list[int]: ...
    def stop(self) -> None: ...


class HeadraceCluster:
    name = "headrace"

    def __init__(self, directory: Path) -> None:
        self._running = RunningCluster(directory, settings={"zookeeper.session.timeout.ms": SESSION_MS})
        self.ports: dict[int, int] = {}

    def start(self) -> None:
        self._running.zookeeper.start()
        with ThreadPoolExecutor(3) as together:
            list(together.map(self._running.add_broker, (1, 2, 3)))
        self.ports = {number: broker.port for number, broker in self._running.brokers.items()}

    def kill(self, broker: int) -> None:
        self._running.brokers[broker].kill()

    def pids(self) -> list[int]:
        """Memory of the brokers and their companions."""
        brokers = [b.process.pid for b in self._running.brokers.values() if b.process is not None]
        children = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in brokers]
        return brokers + [int(child) for several in children for child in several]

    def stop(self) -> None:
        self._running.close()


class KafkaCluster:
    name = "apache kafka"

    def __init__(self, directory: Path) -> None:
        controllers = {number: free_port() for number in (1, 2, 3)}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
        self._nodes: dict[int, ReferenceKafka] = {}
        for number, controller in controllers.items():
            node = ReferenceKafka(directory / f"kafka-{number}", node_id=number, full_compiler=True)
            node.settings |= {
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controller}",
                "broker.session.timeout.ms": SESSION_MS,
                "min.insync.replicas": "2",
                "default.replication.factor": "3",
            }
            self._nodes[number] = node
            # Formatting happens once per data directory and is not part of a start.
            node.format()
        self.ports = {number: node.port for number, node in self._nodes.items()}

    def start(self) -> None:
        with ThreadPoolExecutor(3) as together:
            list(together.map(ReferenceKafka.start, self._nodes.values()))

    def kill(self, broker: int) -> None:
        self._nodes[broker].kill()

    def pids(self) -> list[int]:
        return [node.process.pid for node in self._nodes.values() if node.process is not None]

    def stop(self) -> None:
        for node in self._nodes.values():
            node.kill()


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for number in range(rounds):
        for make in (KafkaCluster, HeadraceCluster):
            _measure(make(directory / f"{make.__name__}-{number}"))
    return list(ROWS.values())


def _measure(cluster: Cluster) -> None:
    name = cluster.name
    began = time.monotonic()
    try:
        cluster.start()
        first = next(iter(cluster.ports.values()))
        _wait(lambda: len(_metadata(first, None).brokers) == 3, 60)
        ROWS["start"].add(name, time.monotonic() - began)
        _create(first, "load", 1)
        _throughput(cluster, "load")
        _latency(cluster, "load")
        ROWS["memory"].add(name, sum(_resident(pid) for pid in cluster.pids()) / 1e6)
        began = time.monotonic()
        _create(first, "many", 500)
        ROWS["partitions"].add(name, time.monotonic() - began)
        ROWS["failover"].add(name, _failover(cluster, "load"))
    finally:
        cluster.stop()


def _throughput(cluster: Cluster, topic: str) -> None:
    batch = load.batch_of(100, 1024)
    frames = [load.produce_frame(topic, {0: batch}, acks=-1)]
    port = cluster.ports[_leader(cluster, topic)]
    count = 4000
    load.produce(port, frames, 1500, depth=10)
    cpu = sum(map(_cpu, cluster.pids()))
    seconds = load.produce(port, frames, count, depth=10)
    produced = count * len(batch)
    ROWS["produce"].add(cluster.name, produced / seconds / 1e6)
    ROWS["cpu"].add(cluster.name, (sum(map(_cpu, cluster.pids())) - cpu) / (produced / 1e9))


def _latency(cluster: Cluster, topic: str) -> None:
    frame = load.produce_frame(topic, {0: load.batch_of(1, 100)}, acks=-1)
    times = []
    with Wire(cluster.ports[_leader(cluster, topic)]) as wire:
        for number in range(2500):
            began = time.perf_counter()
            wire.socket.sendall(frame)
            wire.answer()
            if number >= 500:
                times.append((time.perf_counter() - began) * 1000)
    ROWS["p50"].add(cluster.name, statistics.median(times))
    ROWS["p99"].add(cluster.name, statistics.quantiles(times, n=100)[98])


def _failover(cluster: Cluster, topic: str) -> float:
    leader = _leader(cluster, topic)
    frame = load.produce_frame(topic, {0: load.batch_of(1, 100)}, acks=-1)
    cluster.kill(leader)
    began = time.monotonic()
    others = [port for number, port in cluster.ports.items() if number != leader]
    while time.monotonic() - began < 60:
        for port in others:
            try:
                with Wire(port) as wire:
                    wire.socket.sendall(frame)
                    _, answer = codec.read_response(PRODUCE, PRODUCE_VERSION, bytes(wire.answer()))
            except OSError:
                continue
            if not answer.responses[0].partition_responses[0].error_code:
                return time.monotonic() - began
        time.sleep(0.01)
    raise RuntimeError("no leader took over within a minute")


def _create(port: int, name: str, partitions: int) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 3, "assignments": [], "configs": []}
    with Wire(port) as wire:
        wire.call(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30000, "validate_only": False})
    _wait(lambda: _is_whole(port, name, partitions), 60)


def _is_whole(port: int, name: str, partitions: int) -> bool:
    found = _metadata(port, name).topics[0]
    return len(found.partitions) == partitions and all(
        p.leader_id > 0 and len(p.isr_nodes) == 3 for p in found.partitions
    )


def _metadata(port: int, topic: str | None) -> Any:
    with Wire(port) as wire:
        topics = [] if topic is None else [{"name": topic}]
        return wire.call(METADATA, 5, {"topics": topics, "allow_auto_topic_creation": False})


def _leader(cluster: Cluster, topic: str) -> int:
    return int(_metadata(next(iter(cluster.ports.values())), topic).topics[0].partitions[0].leader_id)


def _wait(condition: Any, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {timeout} s")
        time.sleep(0.02)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
