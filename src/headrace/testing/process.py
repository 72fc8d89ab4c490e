"""A broker as a separate process, for tests that kill it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.net.free_ports import free_port
from headrace.testing.in_process import TEST_SETTINGS

_SERVES: Final = re.compile(r"serves \S+://([^:]+):(\d+)")
_STOP_TIMEOUT_S: Final = 30


class BrokerProcess:
    """Starts at construction and waits until it serves. `start` again after `stop` or `kill`, on the same port.
    `within`: command prefix that runs the broker elsewhere, for example in a network namespace."""

    def __init__(
        self,
        settings: Mapping[str, str],
        data_dir: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.settings = {**TEST_SETTINGS, **settings}
        self.data_dir = data_dir
        self.host, self.port = host, free_port() if port is None else port
        self._within = within
        self.log_file = data_dir.parent / f"{data_dir.name}.log"
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def output(self) -> str:
        """The broker's log output."""
        return self.log_file.read_text(errors="replace")

    def start(self) -> None:
        assert self.process is None, "it runs already"
        command = [*self._within, sys.executable, "-m", "headrace.cli", "start", "--data", str(self.data_dir)]
        command += ["--listen", f"PLAINTEXT://{self.host}:{self.port}"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log_file.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = _SERVES.search(line)
        if found is None:
            self.kill()
            raise RuntimeError(f"the broker did not start:\n{self.output[-3000:]}")
        self.port = int(found[2])

    def kill(self, *, with_companion: bool = False) -> None:
        """SIGKILL. `with_companion` also kills the companion, so that the ZooKeeper session lives until its
        time-out."""
        if with_companion and self.process is not None:
            pid = self.process.pid
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Shuts the broker down cleanly with SIGTERM. Returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            code = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return code


@contextmanager
def broker_process(
    settings: Mapping[str, str] | None = None, *, data_dir: Path | None = None
) -> Iterator[BrokerProcess]:
    directory = data_dir or Path(tempfile.mkdtemp(prefix="headrace-")) / "data"
    running = None
    try:
        running = BrokerProcess(settings or {}, directory)
        yield running
    finally:
        if running is not None:
            running.stop()
        if data_dir is None:
            shutil.rmtree(directory.parent, ignore_errors=True)
