"""The processes of a development cluster: ZooKeeper, brokers, registry, HTTP API and console, each with its own log.

They run in their own sessions, so that Ctrl-C in the terminal reaches only the command. The command then stops the
brokers first, so that they can hand over leadership, and ZooKeeper last.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.net.free_ports import free_port
from headrace.storage.dirs.checkpoints import CorruptFile
from headrace.storage.dirs.identity import ZOOKEEPER, read_identity
from headrace.storage.dirs.nesting import has_logs, log_directories_in, log_directory_around

if TYPE_CHECKING:
    from headrace.cli.support.cluster_security import ClusterSecurity

_START_S: Final = 60
_STOP_S: Final = 20
_HOST: Final = "127.0.0.1"
CONSOLE_PORT: Final = 8080
REGISTRY_PORT: Final = 8081
HTTP_PORT: Final = 8082
# Depth of the search for log directories below --data.
_LEVELS: Final = 3


@dataclass(slots=True)
class Member:
    name: str
    port: int
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]
    starts: int = 1

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def state(self) -> str:
        if self.has_ended:
            return f"ended with {self.process.returncode}"
        return "running" if self.starts == 1 else f"running again as {self.process.pid}"

    def restart(self) -> None:
        self.process = _started(self.command, self.log)
        self.starts += 1


class Cluster:
    def __init__(
        self,
        brokers: int,
        directory: Path,
        port: int,
        zookeeper_port: int,
        settings: Mapping[str, str],
        *,
        secure: bool = False,
    ) -> None:
        self.directory = directory
        self.security: ClusterSecurity | None = None
        self._is_secure = secure
        self._ports = [free_port() if port == 0 else port + at for at in range(brokers)]
        self._zookeeper_port = zookeeper_port or free_port()
        factor = min(3, brokers)
        self._settings = {
            "default.replication.factor": str(factor),
            "min.insync.replicas": str(max(1, factor - 1)),
            "offsets.topic.replication.factor": str(factor),
            "transaction.state.log.replication.factor": str(factor),
            "transaction.state.log.min.isr": str(max(1, factor - 1)),
            "share.coordinator.state.topic.replication.factor": str(factor),
            "share.coordinator.state.topic.min.isr": str(max(1, factor - 1)),
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        self._members: list[Member] = []
        self._services: list[Member] = []
        """Processes that use the cluster. The cluster runs without them."""
        self._console_port = _service_port(CONSOLE_PORT, is_free=port == 0)
        self._registry_port = _service_port(REGISTRY_PORT, is_free=port == 0)
        self._http_port = _service_port(HTTP_PORT, is_free=port == 0)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{_HOST}:{port}" for port in self._ports)

    @property
    def console(self) -> str:
        return self._url(self._console_port)

    @property
    def registry(self) -> str:
        return self._url(self._registry_port)

    @property
    def http_api(self) -> str:
        return self._url(self._http_port)

    def _url(self, port: int) -> str:
        return f"{'https' if self._is_secure else 'http'}://{_HOST}:{port}"

    @property
    def all_ended(self) -> bool:
        return all(member.has_ended for member in self._members[1:])

    @property
    def ended(self) -> list[str]:
        """Processes that ended without a stop by this command."""
        return [member.name for member in self._processes if member.has_ended]

    @property
    def _processes(self) -> list[Member]:
        return [*self._members, *self._services]

    def restart_ended(self) -> None:
        for member in self._processes:
            if member.has_ended:
                member.restart()

    def states(self) -> dict[str, str]:
        return {member.name: member.state for member in self._processes}

    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "process": m.name, "address": f"{_HOST}:{m.port}", "pid": m.process.pid, "state": m.state,
                "log": m.log.name,
            }
            for m in self._processes
        ]  # fmt: skip

    def start(self, stopping: Callable[[], bool]) -> None:
        """Returns when every broker serves or `stopping` is true. Raises Failed with the log of a process that did not
        start."""
        _refuse_log_directories(self.directory)
        for port in (self._zookeeper_port, *self._ports):
            _refuse_taken(port)
        if self._is_secure:
            self._secure()
        self._start_zookeeper()
        self._wait(self._members[0], stopping)
        for number, port in enumerate(self._ports, 1):
            if stopping():
                return
            self._start_broker(number, port)
        for member in self._members[1:]:
            self._wait(member, stopping)
        if not stopping():
            self._start_services()

    def _secure(self) -> None:
        from headrace.cli.support.cluster_security import ClusterSecurity

        self.directory.mkdir(parents=True, exist_ok=True)
        self.security = ClusterSecurity(self.directory / "security", len(self._ports))

    def _start_zookeeper(self) -> None:
        directory = self.directory / "zookeeper"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "zookeeper.properties"
        plain = {"clientPort": str(self._zookeeper_port), "clientPortAddress": _HOST}
        ports = plain if self.security is None else self.security.zookeeper_settings(self._zookeeper_port)
        # A ZooKeeper session ends up to one tick after its time-out.
        rest = {"tickTime": "200", "maxSessionTimeout": "60000", "maxClientCnxns": "0", "admin.enableServer": "false"}
        write_settings(file, {"dataDir": str(directory / "data"), **ports, **rest})
        command = [sys.executable, "-m", "headrace.cli.kafka_tools.zookeeper_start", str(file)]
        self._run("zookeeper", self._zookeeper_port, command)

    def _start_broker(self, number: int, port: int) -> None:
        directory = self.directory / f"broker-{number}"
        own = {"broker.id": str(number), "zookeeper.connect": f"{_HOST}:{self._zookeeper_port}"}
        command = [sys.executable, "-m", "headrace.cli", "start"]
        if self.security is None:
            command += ["--data", str(directory), "--listen", f"{_HOST}:{port}"]
            command += [f"--set={name}={value}" for name, value in {**own, **self._settings}.items()]
        else:
            # In a file that only its owner may read, because other users of the machine can see the command line.
            file = self.directory / f"broker-{number}.properties"
            own |= self.security.settings(number, port, free_port())
            write_settings(file, {**own, **self._settings})
            if number == 1:
                self.security.add_users(file, directory)
            command += [str(file), "--data", str(directory)]
        self._run(f"broker-{number}", port, command)

    def _start_services(self) -> None:
        trouble = None if self.security is None else self.security.services.grant_rights(self.bootstrap)
        if trouble is not None:
            print(f"headrace up: the ACLs of the registry's user were not checked: {trouble}", file=sys.stderr)
        self._start_service("registry", self._registry_port)
        self._start_service("http", self._http_port, "--registry", self.registry)
        self._start_service("console", self._console_port, "--registry", self.registry)

    def _start_service(self, name: str, port: int, *options: str) -> None:
        command = [sys.executable, "-m", "headrace.cli", name, "start"]
        command += ["--listen", f"{_HOST}:{port}", "--bootstrap", self.bootstrap, *options]
        if self.security is not None:
            command += self.security.services.options_of(name)
        log = self.directory / f"{name}.log"
        self._services.append(Member(name, port, command, log, _started(command, log)))

    def _run(self, name: str, port: int, command: list[str]) -> None:
        log = self.directory / f"{name}.log"
        self._members.append(Member(name, port, command, log, _started(command, log)))

    def _wait(self, member: Member, stopping: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_S
        while not stopping():
            if member.process.poll() is not None:
                raise Failed(f"{member.name} did not start:\n{_tail(member.log)}")
            if _listens(member.port):
                return
            if time.monotonic() > deadline:
                raise Failed(f"{member.name} does not serve within {_START_S} s; its log is {member.log}")
            time.sleep(0.05)

    def stop(self, impatient: Callable[[], bool] = lambda: False) -> None:
        """Stops services first, then brokers, ZooKeeper last. Kills processes that do not end in time, or at once if
        `impatient`."""
        for members in (self._services, self._members[1:], self._members[:1]):
            for member in members:
                member.process.terminate()
            deadline = time.monotonic() + _STOP_S
            while any(member.process.poll() is None for member in members):
                if impatient() or time.monotonic() > deadline:
                    for member in members:
                        member.process.kill()
                        member.process.wait()
                    break
                time.sleep(0.02)


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Writes a properties file that only its owner may read."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.writelines(f"{name}={value}\n" for name, value in settings.items())


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)


def _refuse_log_directories(directory: Path) -> None:
    """Raises Failed if the directory is, or contains, the log directory of another broker: that broker would take
    `broker-1` for a log, or its directory would become a broker of this cluster."""
    around = directory if has_logs(directory) else log_directory_around(directory, has_logs)
    if around is not None:
        what = "is" if around == directory else f"is inside {around},"
        raise Failed(f"--data {directory} {what} the log directory of a broker: choose another directory")
    for found in log_directories_in(directory, _LEVELS, has_logs):
        if not _is_of_cluster(found, directory):
            raise Failed(
                f"--data {directory} contains {found}, the log directory of a broker that is not of `headrace up`: "
                "choose another directory"
            )


def _is_of_cluster(found: Path, directory: Path) -> bool:
    """Whether an earlier `headrace up` created the log directory."""
    if found.parent != directory or not (directory / "zookeeper").is_dir():
        return False  # its ZooKeeper is another one
    try:
        identity = read_identity(found)
    except CorruptFile:
        return True  # the broker reports the damage
    if identity is None:  # the file is missing, and the broker says so
        return found.name.startswith("broker-")
    # A version before stored no kind of store.
    is_member = identity.home is None or identity.home.kind == ZOOKEEPER
    return is_member and found.name == f"broker-{identity.node_id}"


def _service_port(usual: int, *, is_free: bool) -> int:
    """The usual port of a service, or a free one if that is requested or the usual port is taken."""
    return free_port() if is_free or _listens(usual) else usual


def _refuse_taken(port: int) -> None:
    if _listens(port):
        raise Failed(f"port {port} is taken already: stop what listens there, or choose --port and --zookeeper-port")


def _listens(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-8:])
