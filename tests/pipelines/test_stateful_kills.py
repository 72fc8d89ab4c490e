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
    pipeline, every = Pipeline(headrace, tmp_path / "p", 40), phases(seed=7, count=60)
    for number, phase in enumerate(every):
        pipeline.write(phase)
        if number == 0:
            interrupted_run(pipeline, spark, chance.uniform(1, 3))
        while not interrupted_run(pipeline, spark, None):
            pass
    assert pipeline.found() == expected(every)


def killed_run(folder: Path, log: Path, after_s: float | None) -> bool:
    """Runs the command. Kills it after a while; True if it ended by itself."""
    command = [str(Path(sys.executable).parent / "headrace"), "pipeline", "run", str(folder), "--once"]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        code = process.wait(after_s if after_s is not None else 600)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert code == 0, log.read_text(errors="replace")[-3000:]
    return True


@pytest.mark.skipif(not is_long(), reason="a dozen starts of Spark (HEADRACE_EFFORT=long)")
@pytest.mark.parametrize("seed", [1])
def test_killed_stateful_flows_equal_a_computation(headrace: Cluster, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pipeline, every = Pipeline(headrace, tmp_path / "p", 25), phases(seed=seed, count=400)
    kills = rounds(short=0, long=10)
    for number, phase in enumerate(every):
        pipeline.write(phase)
        while kills and number < 2:
            if killed_run(pipeline.folder, tmp_path / "log", chance.uniform(12, 35)):
                break
            kills -= 1
            if kills == 5 and number == 0:
                break
        while not killed_run(pipeline.folder, tmp_path / "log", None):
            pass
    assert pipeline.found() == expected(every)
    print(f"seed {seed}: {10 - kills} kills")
