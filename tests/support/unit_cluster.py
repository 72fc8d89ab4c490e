"""A unit of three processes (`headrace start --cores 3`) with the faults of a cluster of three brokers.

The fault tests use it in place of `RunningCluster` with `UNIT=1`. What differs from a cluster:

store      the supervisor has it: `kill_store` kills the supervisor, and its processes stop
kill       the supervisor starts a dead process again at once. A test that killed a broker wants it to stay away, so the
           new process is frozen before it has loaded its modules, until `start`
network    one host: there is no link to cut
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.clock import wait_for
from tests.support.cluster import ClusterBroker, RunningCluster
from tests.support.unit import RunningUnit

IS_UNIT: Final = bool(os.environ.get("UNIT"))
_FIRST_ID = 1
_PROCESSES = 3


class UnitBroker(ClusterBroker):
    """One process. The unit has started it already."""

    def __init__(self, unit: RunningUnit, index: int) -> None:
        self._unit = unit
        self._held: int | None = None  # the frozen process that replaced a killed one
        directory = unit.data if index == 0 else unit.data / f"process.{index}"
        super().__init__(unit.settings, directory, port=unit.port + index)

    def start(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            _signal(held, signal.SIGCONT)
        wait_for(self._serves, f"the process on port {self.port} to serve")

    def _serves(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
            return True
        return False

    @property
    def is_up(self) -> bool:
        return self._held is None and self._unit.process is not None

    @property
    def is_running(self) -> bool:
        return self._unit.process is not None and self._pid_or_none() is not None

    def pause(self) -> None:
        _signal(self._pid(), signal.SIGSTOP)

    def resume(self) -> None:
        if self._unit.process is not None:
            pid = self._pid_or_none()
            if pid is not None and pid != self._held:
                _signal(pid, signal.SIGCONT)

    @property
    def output(self) -> str:
        """Of the whole unit."""
        return self._unit.output

    def kill_at_once(self) -> None:
        self._replace(signal.SIGKILL)

    def kill(self, *, with_companion: bool = False) -> None:
        """A unit has no companions: the kernel closes the socket to the store."""
        self._replace(signal.SIGKILL)

    def stop(self) -> int:
        self._replace(signal.SIGTERM)
        return 0

    def release(self) -> None:
        """The supervisor has ended: the process that was kept from starting ends too."""
        held, self._held = self._held, None
        if held is not None:
            _signal(held, signal.SIGCONT)

    def _replace(self, number: signal.Signals) -> None:
        if not self.is_up:
            return
        before = set(self._unit.children())
        pid = self._pid()
        _signal(pid, signal.SIGCONT)
        _signal(pid, number)

        def replacement() -> int | None:
            return next((one for one in self._unit.children() if one not in before), None)

        self._held = int(wait_for(replacement, "the supervisor to start the process again", poll=0.005))
        _signal(self._held, signal.SIGSTOP)

    def _pid(self) -> int:
        return int(wait_for(self._pid_or_none, f"the process that has {self.data_dir}"))

    def _pid_or_none(self) -> int | None:
        """The process with the lock of the directory."""
        lock = self.data_dir / ".lock"
        for pid in self._unit.children():
            with contextlib.suppress(OSError):
                for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if descriptor.readlink() == lock:
                            return pid
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class UnitCluster(RunningCluster):
    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings=settings)
        self.settings["broker.session.timeout.ms"] = self.settings["zookeeper.session.timeout.ms"]
        self.settings["broker.id"] = str(_FIRST_ID)
        self._unit: RunningUnit | None = None

    def __enter__(self) -> RunningCluster:
        self._unit = RunningUnit(self.directory, _PROCESSES, self.settings, ports=_PROCESSES)
        try:
            for index in range(_PROCESSES):
                self.brokers[_FIRST_ID + index] = UnitBroker(self._unit, index)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self.kill_all()

    def data_dir(self, number: int) -> Path:
        directory = self.directory / "data"
        return directory if number == _FIRST_ID else directory / f"process.{number - _FIRST_ID}"

    def heal(self) -> None:
        assert self._unit is not None
        if self._unit.process is None:
            self._unit.start(_PROCESSES)
        super().heal()

    def kill_all(self) -> None:
        if self._unit is not None and self._unit.process is not None:
            self._unit.kill_all()
        for broker in self.brokers.values():
            assert isinstance(broker, UnitBroker)
            broker.release()

    def kill_store(self) -> None:
        """The processes stop by themselves, so those that are frozen have to run."""
        assert self._unit is not None and self._unit.process is not None
        for broker in self.brokers.values():
            assert isinstance(broker, UnitBroker)
            broker.resume()
            broker.release()
        self._unit.process.kill()
        self._unit.process.wait()
        self._unit.process = None

    def start_store(self) -> None:
        assert self._unit is not None
        self._unit.start(_PROCESSES)
