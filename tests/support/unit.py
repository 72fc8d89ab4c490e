"""A unit of broker processes (`headrace start --cores N`), which a test can kill in part and as a whole.

with RunningUnit(tmp_path, cores=3) as unit:
    unit.kill_one(chance)
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.net.free_ports import free_port, free_ports_in_a_row
from headrace.testing.in_process import TEST_SETTINGS
from tests.support.clock import wait_for

_SERVES: Final = re.compile(r"^headrace \S+ serves (.*) \(data in", re.MULTILINE)
_STOP_TIMEOUT_S: Final = 60


def start_command(data: Path, port: int, cores: int | str | None, settings: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    command += [] if cores is None else ["--cores", str(cores)]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def refusal(data: Path, cores: int | str | None, port: int | None = None, **settings: str) -> str:
    """What `headrace start` says when it refuses."""
    command = start_command(data, free_port() if port is None else port, cores, settings)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0 and "Traceback" not in ended.stderr, ended.stderr
    return ended.stderr


def is_running(pid: int) -> bool:
    return bool(_facts(pid))


def _facts(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name. Empty if the process has ended, also while its parent has not
    noticed that."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if words[0] == "Z" else words


class RunningUnit:
    """`cores` None starts without the option."""

    def __init__(
        self, directory: Path, cores: int | None, settings: Mapping[str, str] | None = None, *, ports: int = 4
    ) -> None:
        self.data = directory / "data"
        self.settings = {**TEST_SETTINGS, **(settings or {})}
        self.port = free_ports_in_a_row(ports)
        self.bootstrap = ",".join(f"127.0.0.1:{self.port + index}" for index in range(cores or 1))
        self._log_file = directory / "unit.log"
        self._log_at = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start(cores)

    def __enter__(self) -> RunningUnit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.kill_all()

    @property
    def output(self) -> str:
        """Since the last start."""
        return self._log_file.read_text(errors="replace")[self._log_at :]

    def start(self, cores: int | None, *, until: str = r"^headrace \S+ serves .* \(data in") -> None:
        assert self.process is None, "it runs already"
        self._log_at = self._log_file.stat().st_size if self._log_file.exists() else 0
        with self._log_file.open("a") as log:
            self.process = subprocess.Popen(
                start_command(self.data, self.port, cores, self.settings),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self.wait_for_output(until)

    def wait_for_output(self, pattern: str) -> None:
        found = re.compile(pattern, re.MULTILINE)

        def seen() -> bool:
            assert self.process is not None and self.process.poll() is None, f"it has ended:\n{self.output[-3000:]}"
            return found.search(self.output) is not None

        wait_for(seen, lambda: f"{pattern!r} in\n{self.output[-3000:]}")

    def children(self) -> list[int]:
        """The processes of the unit, oldest first."""
        assert self.process is not None
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            words = _facts(int(place.name))
            if words and int(words[1]) == self.process.pid:
                found.append((int(words[19]), int(place.name)))
        return [pid for _, pid in sorted(found)]

    def kill_one(self, chance: random.Random) -> int:
        """SIGKILL to one process. Returns its id."""
        pid = chance.choice(self.children())
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_all(self) -> None:
        """SIGKILL to the supervisor and to every process."""
        assert self.process is not None
        pids = [self.process.pid, *self.children()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_STOP_TIMEOUT_S)
        self.process = None
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids[1:]), "the end of all processes")

    def stop(self) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        return process.wait(_STOP_TIMEOUT_S)

    # As a client sees it

    @property
    def client(self) -> dict[str, str | int]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    def create_topic(
        self, name: str, partitions: int = 3, config: Mapping[str, str] | None = None, *, replicas: int = 1
    ) -> None:
        client = AdminClient(self.client)  # kept until the answer
        futures = client.create_topics([NewTopic(name, partitions, replicas, config=dict(config or {}))])
        futures[name].result(60)

    def metadata(self, topic: str) -> dict[int, Any]:
        """Partition → its metadata. Raises RuntimeError if no process answers."""
        try:
            client = AdminClient(self.client)
            found = client.list_topics(topic, timeout=5).topics[topic].partitions
        except KafkaException as problem:
            raise RuntimeError(str(problem)) from None
        return dict(found)

    def leaders(self, topic: str) -> list[int]:
        return [info.leader for _, info in sorted(self.metadata(topic).items())]

    def wait_in_sync(self, topic: str) -> None:
        def complete() -> bool:
            try:
                partitions = self.metadata(topic)
            except RuntimeError:
                return False
            return all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions.values())

        wait_for(complete, f"all replicas of {topic} in sync")
