"""A unit of one and of two broker processes (`headrace start --cores N`) on two cores: requests, bytes, and their CPU.

    python -m benchmarks.unit [--rounds N]

The load generators run on the same cores, so the measured rates say what is left for the brokers. The CPU seconds of
the broker processes are counted apart: per request and per GB they must not grow with the number of processes, and N
divided by them is what N cores can serve.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import load
from benchmarks.load import METADATA, Wire
from headrace.net.free_ports import free_ports_in_a_row

SMALL_REQUESTS = 60_000
# Of all processes together. The kernel's copy into the page cache costs more per GB the more is written at once: one
# process that writes 2 GB needs twice as much CPU per GB as one that writes 0.6 GB.
LARGE_REQUESTS = 600
_TICKS = os.sysconf("SC_CLK_TCK")


class RunningUnit:
    def __init__(self, directory: Path, processes: int) -> None:
        self.processes = processes
        self.port = free_ports_in_a_row(processes)
        command = ["taskset", "-c", f"0-{processes - 1}", sys.executable, "-m", "headrace.cli", "start", "--quiet"]
        command += ["--data", str(directory), "--listen", f"127.0.0.1:{self.port}", "--cores", str(processes)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert b" serves " in line, line

    def pids(self) -> list[int]:
        """The broker processes. A unit of one process is a standalone broker."""
        found = [
            int(stat.parent.name)
            for stat in Path("/proc").glob("[0-9]*/stat")
            if int(_stat(stat)[1]) == self._process.pid
        ]
        return found if self.processes > 1 else [self._process.pid]

    def cpu_seconds(self) -> float:
        fields = [_stat(Path(f"/proc/{pid}/stat")) for pid in self.pids()]
        return sum(int(one[11]) + int(one[12]) for one in fields) / _TICKS

    def supervisor_cpu_seconds(self) -> float:
        fields = _stat(Path(f"/proc/{self._process.pid}/stat"))
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_megabytes(self) -> float:
        pids = {*self.pids(), self._process.pid}
        return (
            sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
            * os.sysconf("SC_PAGE_SIZE")
            / 1e6
        )

    def leader_ports(self, topic: str) -> list[int]:
        with Wire(self.port) as wire:
            while True:
                answer = wire.call(METADATA, 5, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
                partitions = sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)  # type: ignore[attr-defined]
                if all(one.leader_id >= 0 for one in partitions):
                    return [self.port + int(one.leader_id) for one in partitions]

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(60) == 0


def _stat(path: Path) -> list[str]:
    try:
        return path.read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["Z", "0"]


def _generate(port: int, topic: str, partition: int, small: bool, large_requests: int) -> None:
    if small:
        frames = [load.produce_frame(topic, {partition: load.batch_of(1, 100)}, 1)]
        load.produce(port, frames, SMALL_REQUESTS, depth=64, burst=8)
    else:
        frames = [load.produce_frame(topic, {partition: load.batch_of(1000, 1024)}, 1)]
        load.produce(port, frames, large_requests, depth=4)


def _topic(unit: RunningUnit, name: str) -> list[int]:
    """Makes a topic with a partition on each process. Returns the port of each leader."""
    topic = {"name": name, "num_partitions": unit.processes, "replication_factor": 1, "assignments": [], "configs": []}
    with Wire(unit.port) as wire:
        wire.call(load.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30000, "validate_only": False})
    ports = unit.leader_ports(name)
    assert len(set(ports)) == unit.processes, ports
    return ports


def measure(unit: RunningUnit, *, small: bool, number: int) -> tuple[float, float]:
    """(units of work per second, CPU seconds of the brokers per unit): a request, or a GB."""
    name = f"{'small' if small else 'large'}-{number}"
    ports = _topic(unit, name)
    large_requests = LARGE_REQUESTS // unit.processes
    work = unit.processes * (SMALL_REQUESTS if small else large_requests * 1000 * 1024 / 1e9)
    with ProcessPoolExecutor(unit.processes) as pool:
        list(pool.map(time.sleep, [0.2] * unit.processes))  # the generators have started
        cpu, began = unit.cpu_seconds(), time.monotonic()
        jobs = [pool.submit(_generate, port, name, index, small, large_requests) for index, port in enumerate(ports)]
        for job in jobs:
            job.result()
        seconds = time.monotonic() - began
        return work / seconds, (unit.cpu_seconds() - cpu) / work


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.unit", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    table = Table(title=f"units of broker processes ({given.rounds} rounds, medians)")
    for heading in (
        *("processes", "requests/s", "µs CPU/request", "requests/s of N free cores"),
        *("MB/s", "s CPU/GB", "MB/s of N free cores", "supervisor CPU, s", "memory, MB"),
    ):
        table.add_column(heading, justify="right")
    found: dict[int, list[tuple[float, ...]]] = {1: [], 2: []}
    for _ in range(given.rounds):
        for processes, rows in found.items():
            rows.append(_one_round(processes))
    for processes, rows in found.items():
        rate, cost, gb_rate, gb_cost, supervising, memory = (statistics.median(one) for one in zip(*rows, strict=True))
        table.add_row(
            str(processes),
            f"{rate:,.0f}",
            f"{cost * 1e6:.1f}",
            f"{processes / cost:,.0f}",
            f"{gb_rate * 1000:,.0f}",
            f"{gb_cost:.2f}",
            f"{processes / gb_cost * 1000:,.0f}",
            f"{supervising:.2f}",
            f"{memory:,.0f}",
        )
    Console(width=150).print(table)


def _one_round(processes: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-unit-") as directory:
        unit = RunningUnit(Path(directory) / "data", processes)
        try:
            supervising = unit.supervisor_cpu_seconds()
            requests = measure(unit, small=True, number=0)
            gigabytes = measure(unit, small=False, number=0)
            supervising = unit.supervisor_cpu_seconds() - supervising if processes > 1 else 0.0
            return (*requests, *gigabytes, supervising, unit.resident_megabytes())
        finally:
            unit.stop()


if __name__ == "__main__":
    main()
