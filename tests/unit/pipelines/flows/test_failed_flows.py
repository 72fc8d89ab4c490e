"""What a run does with a flow that failed: it starts it again, stops it alone, or ends."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.pipelines.errors import FlowStopped, PipelineError
from headrace.pipelines.flows.progress import FAILED, RESTARTING, STOPPED, FlowProgress
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.running_flow import RunningFlow
from headrace.pipelines.flows.spec import PipelineSpec


def _run(**settings: bool) -> PipelineRun:
    # Failures are judged without a session.
    spec = cast("PipelineSpec", None)
    return PipelineRun(spec, cast("Any", None), report=lambda _: None, **cast("Any", settings))


class _Named:
    class flow:  # noqa: N801 (as the attribute of a resolved flow)
        name = "orders"


def _flow(batches: int) -> RunningFlow:
    flow = RunningFlow(cast("Any", _Named), FlowProgress("tables", "orders"))
    flow.finished_batches = batches
    return flow


def test_a_table_that_had_begun_starts_again_when_its_store_does_not_answer() -> None:
    run, flow = _run(isolated=True), _flow(3)
    run._failed(flow, PipelineError("s3://lake/orders: the commit failed: connection refused"))
    assert (flow.progress.state, run.failures) == (RESTARTING, [])
    assert flow.start_again_at is not None


@pytest.mark.parametrize(("batches", "error"), [(3, FlowStopped("FlowStopped: another writer")), (0, OSError("away"))])
def test_a_table_that_a_person_must_mend_stops_alone(batches: int, error: Exception) -> None:
    run, flow = _run(isolated=True), _flow(batches)
    run._failed(flow, error)
    assert flow.progress.state == FAILED
    assert len(run.failures) == 1


def test_a_failure_after_the_stop_is_no_failure() -> None:
    """SIGTERM may have reached Spark's workers too."""
    run, flow = _run(isolated=True), _flow(0)
    run.stop()
    run._failed(flow, OSError("Python worker exited unexpectedly"))
    assert (flow.progress.state, run.failures) == (STOPPED, [])
