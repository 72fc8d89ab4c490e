"""Brokers and a web console that run as long as a demo."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from headrace.cli.support.child_broker import child_broker
from headrace.client.blocking.client import BlockingClient
from headrace.kernel import parent_process
from headrace.kernel.errors import ErrorCode, Refused
from headrace.net.free_ports import free_port

_READY: Final = re.compile(r"ready on (\S+)")
_SERVES: Final = re.compile(r"serves \S+://([^:]+):(\d+)")
_USUAL_PORT: Final = 9092
_CONSOLE_PORT: Final = 8080
_STOP_S: Final = 30
_KNOWN_S: Final = 60


class Brokers(Protocol):
    """The brokers of a demo. Their numbers begin at 1."""

    bootstrap: str
    count: int

    def kill(self, number: int) -> None:
        """SIGKILL: the broker has no time to say goodbye."""

    def restart(self, number: int) -> None:
        """Starts a killed broker again, with its data and its port."""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def chosen_port(wanted: int | None, count: int = 1) -> int:
    """The wanted port; without a wish Kafka's usual port if it and the next ones are free for `count` brokers, else any
    free one. Raises Refused if the wanted one is taken."""
    if wanted is None:
        usual = range(_USUAL_PORT, _USUAL_PORT + count)
        return _USUAL_PORT if all(map(is_free, usual)) else free_port()
    if wanted and not is_free(wanted):
        raise Refused(
            ErrorCode.invalid_config,
            f"port {wanted} is taken already: stop what listens there, or leave out --port for a free one",
        )
    return wanted or free_port()


class OneBroker:
    """One broker with its own store. It can be killed and started again."""

    count = 1

    def __init__(self, data: Path, port: int, settings: Mapping[str, str]) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._data, self._settings = data, settings
        self._port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(self._data)]
        command += ["--listen", self.bootstrap, parent_process.OPTION]
        command += [f"--set={name}={value}" for name, value in self._settings.items()]
        log = self._data.parent / f"{self._data.name}.log"
        with log.open("a") as out:
            # Its own session: the demo handles Ctrl-C and stops the broker last.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True,
                start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if _SERVES.search(line) is None:
            reason = line.strip() or log.read_text()[-500:].strip()
            self.stop()
            raise Refused(ErrorCode.broker_not_available, f"the broker did not start: {reason}")

    def kill(self, number: int) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self, number: int) -> None:
        self._start()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class DevelopmentCluster:
    """ZooKeeper and several brokers."""

    def __init__(self, data: Path, count: int, port: int, settings: Mapping[str, str]) -> None:
        from headrace.cli.kafka_tools.support.tool import ToolFailed
        from headrace.cli.support.development_cluster import Cluster
        from headrace.pipelines.spark.java import JavaMissing, find_java

        try:
            find_java()
        except JavaMissing as missing:
            why = str(missing).removeprefix("Spark needs ")
            raise JavaMissing(f"{count} brokers need ZooKeeper, which needs {why}") from None
        self.count = count
        self._cluster = Cluster(count, data, port, 0, settings)
        with ExitStack() as undo:
            undo.callback(self._cluster.stop)
            try:
                self._cluster.start(lambda: False)
            except ToolFailed as failed:
                raise Refused(ErrorCode.broker_not_available, str(failed)) from None
            self._wait_until_each_knows_all()
            undo.pop_all()
        self.bootstrap, self.console = self._cluster.bootstrap, self._cluster.console

    def _wait_until_each_knows_all(self) -> None:
        """A broker serves before the others have heard of it. A topic that is created then gets too few replicas, or
        the controller refuses it."""
        deadline = time.monotonic() + _KNOWN_S
        for address in self._cluster.bootstrap.split(","):
            while (known := _known_brokers(address)) < self.count:
                if time.monotonic() > deadline:
                    raise Refused(
                        ErrorCode.broker_not_available,
                        f"broker {address} knows {known} of {self.count} brokers after {_KNOWN_S} s",
                    )
                time.sleep(0.05)

    def kill(self, number: int) -> None:
        (pid,) = (row["pid"] for row in self._cluster.rows() if row["process"] == f"broker-{number}")
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)

    def restart(self, number: int) -> None:
        self._cluster.restart_ended()

    def stop(self) -> None:
        self._cluster.stop()


def _known_brokers(address: str) -> int:
    """In the metadata of this broker. A client that knows several brokers could ask another one."""
    with BlockingClient(address, client_id="headrace-demo") as client:
        return client.broker_count()


@contextmanager
def running_brokers(
    data: Path, count: int = 1, *, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[OneBroker | DevelopmentCluster]:
    """One broker, or a cluster with ZooKeeper. Raises Refused, or JavaMissing for a cluster."""
    at = chosen_port(port, count)
    brokers: OneBroker | DevelopmentCluster
    if count == 1:
        brokers = OneBroker(data, at, settings or {})
    else:
        brokers = DevelopmentCluster(data, count, at if at == _USUAL_PORT or port else 0, settings or {})
    try:
        yield brokers
    finally:
        brokers.stop()


@contextmanager
def embedded_broker(data: Path) -> Iterator[str]:
    """Runs a broker as a child process, on Kafka's usual port if it is free. Yields its address."""
    with child_broker(data, _USUAL_PORT if is_free(_USUAL_PORT) else 0) as address:
        yield address.replace("127.0.0.1", "localhost")


@contextmanager
def web_console(bootstrap: str, log: Path) -> Iterator[str | None]:
    """Runs the web console as a child process. Yields its address, or None if it did not start: the demo goes on."""
    port = _CONSOLE_PORT if is_free(_CONSOLE_PORT) else 0
    command = [sys.executable, "-m", "headrace.cli", "console", "start", "--listen", f"127.0.0.1:{port}"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--bootstrap", bootstrap, parent_process.OPTION], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=out, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        found = _READY.search(process.stdout.readline())
        yield None if found is None else found[1]
    finally:
        process.terminate()
        process.wait()
