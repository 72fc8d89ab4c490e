"""A standalone Spark cluster from the pip package: a master, workers, and their executors, which tests kill.

with SparkCluster(directory) as spark:
    ...                        # a driver with --master spark.url
    spark.kill_executor(chance)
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

from headrace.net.free_ports import free_port
from headrace.pipelines.spark.java import find_java
from tests.support.clock import wait_for

_START_TIMEOUT_S: Final = 120
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_PYTHON_WORKER: Final = "pyspark.daemon"


class SparkCluster:
    def __init__(self, directory: Path, *, workers: int = 2, cores: int = 1) -> None:
        self.directory, self._workers, self._cores = directory, workers, cores
        self.port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> SparkCluster:
        try:
            self._start("master", _MASTER, "--port", str(self.port))
            self._wait_for_master()
            for number in range(1, self._workers + 1):
                work = str(self.directory / f"work-{number}")
                own = ["--port", "0", "--cores", str(self._cores), "--memory", "1g", "--work-dir", work, self.url]
                self._start(f"worker-{number}", _WORKER, *own)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, name: str, program: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        self.directory.mkdir(parents=True, exist_ok=True)
        surroundings = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_NO_DAEMONIZE": "1",
            # These processes mostly start up here, so the fast compiler is enough.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(home / "bin" / "spark-class"), program, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=surroundings, start_new_session=True)
            )

    def _wait_for_master(self) -> None:
        def log() -> str:
            return "a Spark master:\n" + (self.directory / "master.log").read_text()[-3000:]

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            assert self._processes[0].poll() is None, log()
            return False

        wait_for(listens, log)

    def executors(self) -> list[int]:
        """The JVMs that run tasks."""
        children = _children()
        found = [pid for worker in self._processes[1:] for pid in children.get(worker.pid, [])]
        return sorted(pid for pid in found if _EXECUTOR in _command(pid))

    def python_workers(self) -> list[int]:
        """The Python processes that run tasks: children of the executors' daemons, not the daemons."""
        children = _children()
        daemons = [pid for executor in self.executors() for pid in children.get(executor, [])]
        return sorted(
            pid for daemon in daemons if _PYTHON_WORKER in _command(daemon) for pid in children.get(daemon, [])
        )

    def kill_executor(self, chance: random.Random) -> bool:
        return _signal_one(self.executors(), chance, signal.SIGKILL) is not None

    def kill_python_worker(self, chance: random.Random) -> bool:
        return _signal_one(self.python_workers(), chance, signal.SIGKILL) is not None

    def freeze_python_worker(self, chance: random.Random) -> bool:
        """Stops one, and resumes it after some seconds."""
        pid = _signal_one(self.python_workers(), chance, signal.SIGSTOP)
        if pid is not None:
            threading.Timer(chance.uniform(2, 6), _go_on, (pid,)).start()
        return pid is not None

    def close(self) -> None:
        for process in reversed(self._processes):
            # A worker and its executors are one process group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()


def _signal_one(pids: list[int], chance: random.Random, number: signal.Signals) -> int | None:
    """Returns the process; None if there was none or it had just ended."""
    if not pids:
        return None
    pid = chance.choice(pids)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The program name is in parentheses and may contain any character: the fields start after the last one.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(entry.name))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
