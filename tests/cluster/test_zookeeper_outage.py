"""Brokers without ZooKeeper: they wait for it with a time limit, and they can always be stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.net.free_ports import free_port
from headrace.testing.process import BrokerProcess
from tests.support import zookeeper
from tests.support.clock import Stopwatch, wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]

# A stop takes five seconds without the store, and half a session more if the store does not answer. The rest is for
# busy machines.
STOPS_WITHIN_S = 30
CLEAN_MARK = ".kafka_cleanshutdown"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), brokers=2) as running:
        yield running


@pytest.mark.parametrize("how", ["killed", *(["silent"] if is_long() else [])])
def test_all_brokers_stop_cleanly_without_zookeeper(cluster: RunningCluster, how: str) -> None:
    """One of them is the controller, which cannot ask another broker for its own controlled shutdown."""
    silent = how == "silent"
    name = f"kept-{how}"
    cluster.create_topic(name, 3, replicas=2)
    cluster.wait_in_sync(name)
    cluster.zookeeper.pause() if silent else cluster.zookeeper.kill()
    ended = ending(list(cluster.brokers.values()))
    cluster.zookeeper.resume() if silent else cluster.zookeeper.start()
    for broker, (code, said) in zip(cluster.brokers.values(), ended, strict=True):
        assert code == 0, said
        assert "leadership could not be handed over" in said, said
        assert "Traceback" not in said, said
        assert (broker.data_dir / CLEAN_MARK).exists()
        broker.start()
    cluster.wait_in_sync(name)


def ending(brokers: Sequence[BrokerProcess]) -> list[tuple[int, str]]:
    """Sends SIGTERM to all at once. Returns each exit code and the output."""
    before = [len(broker.output) for broker in brokers]
    processes = []
    for broker in brokers:
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        processes.append(broker.process)
    codes = [process.wait(STOPS_WITHIN_S) for process in processes]
    for broker in brokers:
        broker.stop()
    return [(code, broker.output[at:]) for code, broker, at in zip(codes, brokers, before, strict=True)]


def test_start_waits_for_zookeeper_and_fails_with_an_error_message(tmp_path: Path) -> None:
    watch = Stopwatch()
    with starting(tmp_path, free_port(), wait_ms=1500) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    watch.at_least(1.5)
    assert "does not answer within 1.5 s: is it running, and does zookeeper.connect name it?" in said
    assert "Traceback" not in said


def test_start_continues_when_zookeeper_appears(tmp_path: Path) -> None:
    port = free_port()
    with starting(tmp_path, port, wait_ms=60_000) as process:
        first = told(process)
        assert "connecting to ZooKeeper" in first
        assert "for up to 60 s" in first
        with ZooKeeperServer(tmp_path / "zookeeper", port=port):
            assert process.stdout is not None
            assert "serves" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOPS_WITHIN_S) == 0


@pytest.mark.parametrize("listening", [False, True], ids=["absent", "silent"])
def test_a_broker_that_waits_for_zookeeper_can_be_stopped(tmp_path: Path, listening: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listening:
            silent.listen()
        with starting(tmp_path, silent.getsockname()[1], wait_ms=600_000) as process:
            assert "connecting to ZooKeeper" in told(process)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=STOPS_WITHIN_S)
    assert process.returncode == 0, said
    assert "Traceback" not in said, said


@contextmanager
def starting(directory: Path, zookeeper_port: int, *, wait_ms: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(directory / "data"), "--listen=127.0.0.1:0"]
    command += [f"--set=zookeeper.connect=127.0.0.1:{zookeeper_port}", "--set=broker.id=1"]
    command += [f"--set=zookeeper.connection.timeout.ms={wait_ms}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def told(process: subprocess.Popen[str]) -> str:
    """The first line about ZooKeeper in the output."""
    assert process.stderr is not None
    for line in process.stderr:
        if "ZooKeeper" in line:
            return line
    raise AssertionError("it ended without a message about ZooKeeper")


@pytest.mark.parametrize("when", ["starting", "without ZooKeeper", *(["twice"] if is_long() else [])])
def test_ctrl_c_stops_a_development_cluster_in_every_state(tmp_path: Path, when: str) -> None:
    command = [sys.executable, "-m", "headrace.cli", "up", "--brokers", "2", "--port", "0", "--zookeeper-port", "0"]
    process = subprocess.Popen([*command, "--data", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids: list[int] = []
    try:
        if when == "starting":
            wait_for(lambda: (tmp_path / "zookeeper.log").exists(), "the first process")
        else:
            # Addresses of brokers and services, then a table: ZooKeeper, two brokers, registry, HTTP API and console.
            while not (head := process.stdout.readline()).startswith("PROCESS"):
                assert head, "the cluster ended"
            pids = [int(process.stdout.readline().split()[2]) for _ in range(6)]
            os.kill(pids[0], signal.SIGKILL)
            assert "zookeeper: ended" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        if when == "twice":
            assert "stopping" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
        assert process.wait(STOPS_WITHIN_S) == 0
        assert "stopped" in process.stdout.read()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
