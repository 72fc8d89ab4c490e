"""Five stateful flows (window with late data, stream-stream join, static join, deduplication, sessions) give exactly
what plain Python computes, although they are interrupted at random.

`make test` cancels running batches in one Spark session. HEADRACE_EFFORT=long kills the driver ten times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import load_spec
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.stateful_flows import NAMES, Phase, canonical, expected, phases, write_pipeline
from tests.pipelines.test_sink import values_of
from tests.support.clock import Stopwatch, wait_for
from tests.support.effort import is_long, rounds
from tests.support.names import unique

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]


class Pipeline:
    def __init__(self, headrace: Cluster, folder: Path, rows_per_batch: int) -> None:
        self.headrace, self.folder, self.name = headrace, folder, unique("stateful")
        write_pipeline(folder, self.name, headrace.bootstrap, rows_per_batch)
        for topic in ("events", "clicks"):
            headrace.client.create_topic(f"{self.name}-{topic}", 1)

    def write(self, phase: Phase) -> None:
        now = int(time.time() * 1000)
        for topic, rows in (("events", phase.events), ("clicks", phase.clicks)):
            records = [Record(None, row.value(), timestamp_ms=now) for row in rows]
            if records:
                self.headrace.write(f"{self.name}-{topic}", records)

    def found(self) -> dict[str, Counter[str]]:
        return {
            name: Counter(
                {
                    canonical(json.loads(value)): count
                    for value, count in values_of(self.headrace, f"{self.name}-{name}").items()
                }
            )
            for name in NAMES
        }


def interrupted_run(pipeline: Pipeline, spark: Any, after_s: float | None) -> bool:
    """Runs the flows until they have read everything. Cancels their batches after a while; False if it did."""
    run = PipelineRun(load_spec(pipeline.folder), spark, report=lambda _: None, once=True)
    run.start()
    is_cancelled = threading.Event()

    def cancel() -> None:
        is_cancelled.set()
        for flow in run.flows:
            if flow.query is not None:
                # Without the grace that the runner gives a batch.
                flow.query.stop()

    timer = threading.Timer(after_s or 0, cancel)
    if after_s is not None:
        timer.start()
    try:
        run.supervise()
    finally:
        timer.cancel()
    return not is_cancelled.is_set()


@pytest.mark.skipif(is_long(), reason="the driver is killed instead")
def test_interrupted_stateful_flows_equal_a_computation(spark: Any, headrace: Cluster, tmp_path: Path) -> None:
    chance = random.Random(7)
    pipeline, every = Pipeline(headrace, tmp_path / "p", 60), phases(seed=7, count=40)
    for number, phase in enumerate(every):
        pipeline.write(phase)
        if number == 0:
            interrupted_run(pipeline, spark, chance.uniform(1, 3))
        while not interrupted_run(pipeline, spark, None):
            pass
    assert pipeline.found() == expected(every)


def batches_begun(folder: Path) -> int:
    """How many batches the flows have begun, all together."""
    numbers: dict[Path, int] = {}
    for file in (folder / "storage" / "checkpoints").glob("*/offsets/*"):
        if file.name.isdigit():
            numbers[file.parent] = max(numbers.get(file.parent, -1), int(file.name))
    return sum(number + 1 for number in numbers.values())


class Driver:
    """`headrace pipeline run DIR --once` in a process group of its own."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder, self.log = folder, log
        command = [str(Path(sys.executable).parent / "headrace"), "pipeline", "run", str(folder), "--once"]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    def finishes(self) -> None:
        try:
            code = self.process.wait(600)
        finally:
            self.kill()
        assert code == 0, self._tail()

    def is_killed_in(self, batches: int, after_s: float) -> bool:
        """Kills the driver some time after its flows have begun this many batches. False if it ended before."""
        wanted = batches_begun(self.folder) + batches
        process = self.process
        try:
            wait_for(
                lambda: process.poll() is not None or batches_begun(self.folder) >= wanted,
                lambda: f"{wanted} batches, {batches_begun(self.folder)} have begun: {self._tail()}",
                # Five flows start in seconds, and on a machine that is busy with other work in minutes.
                within=400,
                poll=0.02,
            )
            code = process.wait(after_s)
        except subprocess.TimeoutExpired:
            return True
        finally:
            self.kill()
        assert code == 0, self._tail()
        return False

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.mark.skipif(not is_long(), reason="a dozen starts of Spark (HEADRACE_EFFORT=long)")
@pytest.mark.parametrize("seed", [int(os.environ.get("HEADRACE_SEED", "1"))])
def test_killed_stateful_flows_equal_a_computation(headrace: Cluster, tmp_path: Path, seed: int) -> None:
    chance, watch = random.Random(seed), Stopwatch()
    pipeline, every = Pipeline(headrace, tmp_path / "p", 20), phases(seed=seed, count=120)
    wanted = rounds(short=0, long=10)
    kills = 0
    for number, phase in enumerate(every):
        pipeline.write(phase)
        # The phases of many events: half of the kills each.
        while number in (0, 2) and kills < wanted // 2 * (number // 2 + 1):
            driver = Driver(pipeline.folder, tmp_path / "log")
            # In the first batch of a driver, or some batches later: while it reads, keeps state, or commits.
            if not driver.is_killed_in(chance.randint(1, 8), chance.uniform(0, 1)):
                break
            kills += 1
        Driver(pipeline.folder, tmp_path / "log").finishes()
    assert pipeline.found() == expected(every)
    assert kills == wanted
    print(f"seed {seed}: {kills} kills, {batches_begun(pipeline.folder)} batches, {watch.seconds:.0f} s")
