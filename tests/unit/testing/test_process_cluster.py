"""A cluster of broker processes for a test: killed, frozen and started again while a client writes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.testing.assertions import assert_records
from headrace.testing.cluster_settings import ClusterError
from headrace.testing.process_cluster import ProcessCluster, process_cluster
from tests.support.clock import PATIENCE_S, wait_for


@pytest.fixture(scope="module")
def running() -> Iterator[ProcessCluster]:
    with process_cluster(3) as one:
        one.create_topic("orders")
        yield one
        pids = [child.pid for child in one.brokers.values()]
    assert pids and not any(Path(f"/proc/{pid}").exists() for pid in pids), "no process stays behind"
    assert not one.directory.exists()


def send(running: ProcessCluster, value: str) -> None:
    told: list[Any] = []
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    producer.produce("orders", value, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0 and told == [None]


def test_killed_and_frozen_leaders_are_replaced_and_nothing_is_lost(running: ProcessCluster) -> None:
    send(running, "tea")
    killed = running.leader("orders")
    pid = running.running(killed).pid
    running.kill(killed)
    assert not Path(f"/proc/{pid}").exists()
    send(running, "coffee")
    running.start(killed)
    assert running.running(killed).pid != pid
    wait_for(lambda: running.leader("orders") > 0, "a leader")
    frozen = running.leader("orders")
    running.pause(frozen)
    try:
        send(running, "milk")
    finally:
        running.resume(frozen)
    running.shut_down(frozen)
    assert_records(running, "orders", ["tea", "coffee", "milk"], within=PATIENCE_S)
    running.start(frozen)


def test_the_end_of_a_process_is_reported_with_its_code(running: ProcessCluster) -> None:
    child = running.running(2)
    running.kill(2)
    assert child.exit_code == -signal.SIGKILL
    running.start(2)
    child = running.running(2)
    running.shut_down(2)
    assert child.exit_code == 0
    running.start(2)


def test_the_server_of_processes_ends_with_the_program_that_started_it() -> None:
    program = "from headrace.testing.fork_server import fork_server; print(fork_server()._server.pid)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    status = Path(f"/proc/{int(done.stdout)}/status")
    # In a container the first process may leave it unreaped.
    wait_for(lambda: not status.exists() or "State:\tZ" in status.read_text(), "the end of the server")


def test_wrong_calls_name_the_brokers(running: ProcessCluster) -> None:
    with pytest.raises(ClusterError, match=r"broker 7 does not run: brokers 1, 2, 3 do"):
        running.kill(7)
    with pytest.raises(ClusterError, match="there is no broker 7: the cluster has brokers 1, 2, 3"):
        running.start(7)
    with pytest.raises(ClusterError, match="broker 1 runs already"):
        running.start(1)
    with pytest.raises(ClusterError, match="there is no partition orders-9"):
        running.leader("orders", 9)
    with (
        pytest.raises(ClusterError, match=r"brokers=1: one process is no cluster; broker_process\(\)"),
        process_cluster(1),
    ):
        pass
    with pytest.raises(ClusterError, match="brokers=10: must be between 1 and 9"), process_cluster(10):
        pass
