"""A real ZooKeeper server for tests: its own directory, a free port, stopped by its process id.

with ZooKeeperServer(tmp_path) as server:
    store = ZooKeeperStore(server.connect, session_timeout=6)
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from headrace.coordination import zookeeper_server
from headrace.net.free_ports import free_port
from tests.support.clock import wait_for
from tests.support.names import unique


def available() -> bool:
    try:
        zookeeper_server.find_java()
        zookeeper_server.find_jars()
    except zookeeper_server.CannotStart:
        return False
    return True


def missing_programs() -> list[str]:
    return [] if available() else ["java"]


class ZooKeeperServer:
    """One server. `pause` and `resume` freeze it, `kill` and `start` crash and restart it on the same data and port."""

    def __init__(
        self,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        tick_ms: int = 200,  # a session ends up to a tick late
        extra: str = "",
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = free_port() if port is None else port
        self.tick_ms = tick_ms
        self.extra = extra
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        return f"{self.host}:{self.port}"

    def chroot(self) -> str:
        """The connect string of an empty chroot for one test."""
        return f"{self.connect}/{unique('test')}"

    def start(self) -> ZooKeeperServer:
        """Returns when it serves. A server of an ensemble serves when it knows the ensemble's leader."""
        self.launch()
        try:
            wait_for(self._serves, lambda: f"ZooKeeper to serve:\n{self._tail()}")
        except BaseException:
            self.stop()
            raise
        return self

    def launch(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "zoo.cfg"
        file.write_text(
            f"dataDir={self.directory / 'data'}\nclientPort={self.port}\nclientPortAddress={self.host}\n"
            f"tickTime={self.tick_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\nminSessionTimeout=1000\n"
            "maxSessionTimeout=60000\n"
            # A kill keeps what was written, and a sync of a slow disk takes longer than the sessions of a test.
            "forceSync=no\n"
            f"4lw.commands.whitelist=stat,srvr\n{self.extra}"
        )
        with (self.directory / "zookeeper.out").open("ab") as out:
            self.process = subprocess.Popen(
                zookeeper_server.command(file, heap="128m"), stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def ask(self, command: str) -> str:
        """The answer to one of ZooKeeper's four-letter commands, empty if there is none."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                connection.sendall(command.encode())
                connection.settimeout(2)
                answer = b""
                while part := connection.recv(4096):
                    answer += part
                return answer.decode(errors="replace")
        except OSError:
            return ""

    def _serves(self) -> bool:
        """The server listens, and answers `ruok`, before it serves."""
        assert self.process is not None and self.process.poll() is None, f"ZooKeeper ended:\n{self._tail()}"
        return "Mode: " in self.ask("srvr")

    def _tail(self) -> str:
        return (self.directory / "zookeeper.out").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    stop = kill  # its data survives a kill; a slow clean stop would test nothing more

    def pause(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def __enter__(self) -> ZooKeeperServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ZooKeeperEnsemble:
    """Several servers that decide by majority. Any minority of them may be down."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        peers = "".join(f"server.{n}=127.0.0.1:{free_port()}:{free_port()}\n" for n in range(1, size + 1))
        self.servers: list[ZooKeeperServer] = []
        for number in range(1, size + 1):
            limits = "initLimit=20\nsyncLimit=10\n"
            server = ZooKeeperServer(directory / str(number), tick_ms=500, extra=limits + peers)
            (server.directory / "data").mkdir(parents=True)
            (server.directory / "data" / "myid").write_text(str(number))
            self.servers.append(server)

    @property
    def connect(self) -> str:
        return ",".join(server.connect for server in self.servers)

    def leader(self) -> ZooKeeperServer:
        return next(server for server in self.servers if "Mode: leader" in server.ask("srvr"))

    def __enter__(self) -> ZooKeeperEnsemble:
        for server in self.servers:
            server.launch()
        wait_for(
            lambda: all("Mode: " in server.ask("srvr") for server in self.servers), "the ensemble to elect a leader"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.stop()
