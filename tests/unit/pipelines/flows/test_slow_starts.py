"""Failures of machines: processes that could not start together start one after the other, lost executors return."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.progress import RESTARTING, FlowProgress
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.running_flow import RunningFlow
from headrace.pipelines.flows.spec import PipelineSpec

_SLOW = "Python worker failed to connect back"


def flow(name: str) -> RunningFlow:
    resolved = cast("Any", SimpleNamespace(flow=SimpleNamespace(name=name), writes_dead_letters=False))
    return RunningFlow(resolved, FlowProgress("p", name))


def run_of(tmp_path: Path, *names: str, once: bool = True) -> PipelineRun:
    spec = PipelineSpec(tmp_path, "p", "storage", None, {}, ())
    return PipelineRun(spec, cast("Any", None), report=lambda _: None, once=once, flows=[flow(name) for name in names])


def test_slow_starts_are_repeated_one_after_the_other(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a", "b", "c")
    for one in run.flows:
        run._failed(one, Exception(_SLOW))
    times = [one.start_again_at for one in run.flows if one.start_again_at is not None]
    assert [one.progress.state for one in run.flows] == [RESTARTING] * 3
    assert [round(after - before) for before, after in itertools.pairwise(times)] == [5, 5]


def test_other_failures_are_not(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a")
    run._failed(run.flows[0], PipelineError("no such column"))
    assert run.flows[0].start_again_at is None
    assert run.failures == ["flow 'a' failed: no such column"]


def test_slow_starts_end_after_some(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a")
    for _ in range(3):
        run._failed(run.flows[0], Exception(_SLOW))
        assert run.failures == []
    run._failed(run.flows[0], Exception(_SLOW))
    assert run.failures and _SLOW in run.failures[0]


@pytest.mark.parametrize(
    "failure", [_SLOW, "Job aborted due to stage failure: … ExecutorLostFailure (executor 3 exited)"]
)
def test_continuous_run_has_more_patience_with_machines(tmp_path: Path, failure: str) -> None:
    run = run_of(tmp_path, "a", once=False)
    run.isolated = True
    for _ in range(12):
        run._failed(run.flows[0], Exception(failure))
        assert (run.failures, run.flows[0].progress.state) == ([], RESTARTING)
    run._failed(run.flows[0], Exception(failure))
    assert len(run.failures) == 1
