"""People stop, start, reset and replay flows of a running pipeline on Spark, by records of `__pipeline_commands`."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from headrace.client.blocking.flow_commands import FlowCommand, give
from headrace.pipelines.flows.progress import read_progress
from headrace.pipelines.flows.runner import PipelineRun
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_runner import copy_flow, fill, made  # noqa: F401  a fixture
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.names import unique


class Commanded:
    """A running pipeline with the flow `copied`."""

    def __init__(self, headrace: Cluster, spec: Any, spark: Any) -> None:
        self.headrace, self.key = headrace, f"{spec.name}.copied"
        self.run = PipelineRun(spec, spark, report=lambda _: None, is_controlled=True)
        self.run.start()
        self.thread = threading.Thread(target=self.run.supervise)
        self.thread.start()

    def report(self) -> dict[str, Any]:
        return read_progress(self.headrace.bootstrap).get(self.key, {})

    def command(self, action: str, **fields: str) -> tuple[str, str]:
        run = wait_for(lambda: self.report().get("run"), "a run that takes commands")
        name, now_ms = unique("command"), int(time.time() * 1000)
        give(self.headrace.client, FlowCommand(name, str(run), self.key, action, "User:ann", now_ms, **fields))

        def ended() -> dict[str, Any] | None:
            found = self.report().get("command")
            return found if found and found["id"] == name and found["state"] != "begun" else None

        found = wait_for(ended, f"the end of {action}")
        return found["state"], found["message"]

    def stop(self) -> None:
        self.run.stop()
        self.thread.join(120)


@pytest.mark.skipif(not is_long(), reason="long form: HEADRACE_EFFORT=long")
def test_a_flow_on_spark_is_stopped_reset_replayed_and_started(
    spark: Any,
    headrace: Cluster,
    made: Any,  # noqa: F811
) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"a", b"b", b"c", b"d")
    running = Commanded(headrace, made(unique("commanded"), copy_flow(source, target)), spark)
    try:
        wait_for(lambda: running.report().get("end_offsets") == {source: {"0": 4}}, "the report of the first four rows")
        report = running.report()
        assert len(values_of(headrace, target)) == 4
        assert report["target"] == {"kind": "topic", "name": target} and report["durations_ms"]["addBatch"] > 0
        assert running.command("reset", to="earliest") == (
            "failed", "flow 'copied' runs: stop it before you reset it",
        )  # fmt: skip
        places = [json.dumps({source: {"0": offset}}) for offset in (1, 3)]
        assert running.command("replay", begin=places[0], to=places[1]) == ("done", "2 rows read again")
        assert values_of(headrace, target) == {b"A": 1, b"B": 2, b"C": 2, b"D": 1}
        # The replay reports nothing as the flow, and leaves its group where it is.
        assert running.report()["end_offsets"] == {source: {"0": 4}}
        assert headrace.client.committed_offsets(running.key, [(source, 0)])[source, 0][0] == 4
        assert running.command("stop") == ("done", "") and running.report()["state"] == "stopped"
        fill(headrace, source, b"e")
        assert running.command("reset", to=json.dumps({source: {"0": 3}})) == ("done", "")
        assert running.thread.is_alive() and values_of(headrace, target) == {b"A": 1, b"B": 2, b"C": 2, b"D": 1}
        assert running.command("start") == ("done", "")
        wait_for(lambda: b"E" in values_of(headrace, target), "the row that came while the flow was stopped")
        assert values_of(headrace, target) == {b"A": 1, b"B": 2, b"C": 2, b"D": 2, b"E": 1}
        assert running.command("start")[0] == "failed"
    finally:
        running.stop()
    assert running.report()["run"] == "" and running.report()["state"] == "stopped"
