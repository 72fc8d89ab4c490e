"""The runner without Spark as a process that is killed at random: no row is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.pipelines.flows.progress import LOST, STOPPED, read_progress
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.effort import is_long, rounds

_ROOT = Path(__file__).resolve().parents[3]


def lite(file: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace.cli", "pipeline", "run", str(file), "--lite", *more]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.chaos
def test_killed_runner_loses_and_doubles_nothing(headrace: Cluster, tmp_path: Path) -> None:
    chance = random.Random(18)
    rows, source, target = rounds(short=1_000, long=20_000), headrace.topic(3), headrace.topic()
    now = int(time.time() * 1000)
    for begin in range(0, rows, 500):
        batch = [Record(b"%d" % n, b"row %d" % n, timestamp_ms=now) for n in range(begin, begin + 500)]
        headrace.write(source, batch, partition=(begin // 500) % 3)
    file = tmp_path / "copy.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n  topic: {{name: {source}, options: {{maxOffsetsPerTrigger: 40}}}}\n"
        f"select: SELECT key, value FROM source\nto:\n  topic: {{name: {target}}}\n"
    )
    offsets = tmp_path / "storage" / "copy" / "checkpoints" / "copy" / "offsets"

    def last() -> int:
        return max((int(one.name) for one in offsets.glob("*") if one.name.isdigit()), default=-1)

    kills = 0
    for _ in range(rounds(short=2, long=20)):
        process, wanted = lite(file), last() + chance.randint(2, 8)
        assert process.stderr is not None
        ended = process.poll
        wait_for(lambda wanted=wanted, ended=ended: last() >= wanted or ended() is not None, "batches", poll=0.002)
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        kills += 1
    if is_long():
        # After two heartbeats without a sign of life, which `make test` does not wait for.
        wait_for(
            lambda: read_progress(headrace.bootstrap)["copy.copy"]["state"] == LOST, "the killed runner to be lost"
        )
    done = lite(file, "--once")
    _, words = done.communicate(timeout=120)
    assert done.returncode == 0, words
    assert kills >= 2
    assert read_progress(headrace.bootstrap)["copy.copy"]["state"] == STOPPED
    assert values_of(headrace, target) == {b"row %d" % n: 1 for n in range(rows)}
