"""A worker of Kafka Connect 4.3.0 in distributed mode, as the reference for `headrace connect serve`.

    with ReferenceConnect(tmp_path, broker.bootstrap) as worker:
        requests.get(worker.url + "/connectors")

It has the file connectors of Apache Kafka and keeps its state in topics of the given brokers.
"""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from headrace.net.free_ports import free_port
from tests.reference.kafka import ReferenceUnavailable, java_command
from tests.support.clock import wait_for


class ReferenceConnect:
    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory, self.port = directory, free_port()
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "reference-connect",
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        for kind in ("config", "offset", "status"):
            settings[f"{kind}.storage.topic"] = f"reference-connect-{kind}"
            settings[f"{kind}.storage.replication.factor"] = "1"
        settings |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ReferenceConnect:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(file),
            heap="512m",
            properties={"org.slf4j.simpleLogger.defaultLogLevel": "warn"},
        )
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            wait_for(self._serves, lambda: f"Kafka Connect to serve:\n{self._tail()}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @property
    def _log(self) -> Path:
        return self.directory / "worker.out"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _serves(self) -> bool:
        """Whether it has joined its group: before that it answers requests about connectors with 404 and 409."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise ReferenceUnavailable(f"Kafka Connect ended at its start:\n{self._tail()}")
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
