"""Our command line and Kafka's own tools: time from start to exit against the same Headrace broker, in turns.

Wall time is what a user waits for. CPU seconds are comparable on a busy machine. Kafka's tool runs with the flags that
start a JVM fastest (one compiler tier, serial collector), so it is a little faster here than with its own script.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.report import Row
from headrace.testing import broker
from tests.reference.kafka import java_command

ROOT = Path(__file__).resolve().parents[1]
TOPICS = 10
RUNS = 5
ROWS = {
    "list": Row("kafka-topics --list, start to finished", "s", 0.25, higher_is_better=False),
    "list_cpu": Row("kafka-topics --list, processor time", "s", 0.25, higher_is_better=False),
    "ls": Row("headrace topics ls (with records and sizes), start to finished", "s", higher_is_better=False),
    "ls_cpu": Row("headrace topics ls, processor time", "s", higher_is_better=False),
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    with broker(data_dir=directory / "data") as running:
        address = ["--bootstrap-server", running.bootstrap]
        tool = [str(ROOT / "bin" / "kafka-topics.sh"), *address]
        for number in range(TOPICS):
            subprocess.run([*tool, "--create", "--topic", f"t{number}"], check=True, stdout=subprocess.DEVNULL)
        kafka = java_command("org.apache.kafka.tools.TopicCommand", *address, "--list")
        own = [str(Path(sys.executable).with_name("headrace")), "topics", "ls", "--bootstrap", running.bootstrap]
        for _ in range(rounds * RUNS):
            theirs = _timed(kafka)
            _add("list", "apache kafka", theirs)
            _add("list", "headrace", _timed([*tool, "--list"]))
            _add("ls", "apache kafka", theirs)
            _add("ls", "headrace", _timed(own))
    return list(ROWS.values())


def _add(row: str, server: str, times: tuple[float, float]) -> None:
    wall, cpu = times
    ROWS[row].add(server, wall)
    ROWS[f"{row}_cpu"].add(server, cpu)


def _timed(command: list[str]) -> tuple[float, float]:
    """(wall seconds, CPU seconds) of a command that must succeed and print every topic."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert all(f"t{number}" in done.stdout for number in range(TOPICS)), done.stdout
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
