"""Flows start a few at a time, because Spark gives the Python processes of a source ten seconds to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from headrace.pipelines.flows import runner
from headrace.pipelines.flows.progress import FlowProgress
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.running_flow import RunningFlow


@dataclass
class Query:
    """What the runner asks of a query of Spark."""

    message: str
    isActive: bool = True  # noqa: N815

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self.message}


def flow(message: str | None, *, is_active: bool = True) -> RunningFlow:
    query = None if message is None else cast("Any", Query(message, is_active))
    return RunningFlow(cast("Any", None), FlowProgress("pipeline", "flow"), query)


def test_a_flow_is_starting_until_its_sources_are_ready() -> None:
    assert flow("Initializing sources").is_starting
    assert not flow("Waiting for data to arrive").is_starting
    assert not flow("Initializing sources", is_active=False).is_starting, "it failed"
    assert not flow(None).is_starting


def test_the_next_flow_waits_while_as_many_as_processors_start() -> None:
    starting = [flow("Initializing sources") for _ in range(runner._STARTS_AT_ONCE)]
    run = PipelineRun(cast("Any", None), cast("Any", None), flows=[*starting[1:], flow(None), flow("Processing")])
    assert not run._are_many_starting()
    run.flows.append(starting[0])
    assert run._are_many_starting()
