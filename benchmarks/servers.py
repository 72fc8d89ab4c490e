"""Either broker as a process: started, warmed, measured (CPU, memory) and stopped the same way."""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from headrace.net.free_ports import free_port
from tests.reference.kafka import ReferenceKafka

_SOURCES = Path(__file__).parent.parent / "src"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """A running broker. `name` is its name in the report."""

    name: str
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    pid: int = 0
    start_seconds: float = 0.0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, plain: socket.socket) -> socket.socket:
        """The client's side of a connection, with TLS if the settings ask for it."""
        if "ssl.keystore.location" not in self.settings:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)

    def start(self) -> Server:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _first_answer(server: Server, began: float, timeout: float, process: subprocess.Popen[bytes]) -> float:
    """Seconds until the broker answers an ApiVersions request: the moment when a client can begin."""
    port = server.port
    request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"
    while time.monotonic() - began < timeout:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended at its start with code {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as plain, server.client(plain) as client:
                client.settimeout(5)
                client.sendall(request)
                if client.recv(4):
                    return time.monotonic() - began
        except OSError:
            time.sleep(0.005)
    raise RuntimeError(f"no broker answered on port {port} within {timeout} s")


class Headrace(Server):
    """A broker of this checkout, or of the one whose `sources` are given."""

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        *,
        name: str = "headrace",
        sources: Path = _SOURCES,
    ) -> None:
        super().__init__(name, directory, settings or {})
        self._sources = sources
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        # As pip leaves an installed package. If Python cannot write bytecode, each start would compile again.
        compileall.compile_dir(str(self._sources), quiet=2)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        options = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        program = [sys.executable, "-m", "headrace.cli"]
        command = [*program, "start", "--data", str(self.directory / "data"), "--listen", self.bootstrap, *options]
        began = time.monotonic()
        with (self.directory / "headrace.out").open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(self._sources)},
            )
        self.pid = self._process.pid
        self.start_seconds = _first_answer(self, began, 60, self._process)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None


class Kafka(Server):
    """Apache Kafka with the heap of its own scripts (1 GB) and its defaults."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__("apache kafka", directory, settings or {})
        self._node: ReferenceKafka | None = None

    def start(self) -> Server:
        self._node = self._node or ReferenceKafka(self.directory, settings=self.settings, full_compiler=True)
        self.port = self._node.port
        # Formatting happens once per data directory and is not part of a start.
        self._node.format()
        began = time.monotonic()
        self._node.start()
        assert self._node.process is not None
        self.pid = self._node.process.pid
        self.start_seconds = _first_answer(self, began, 180, self._node.process)
        return self

    def stop(self) -> None:
        if self._node is not None:
            self._node.stop()
