"""Pipelines in a terminal: `pipeline status --watch`, and the demo of `make run`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pexpect
import pytest

from headrace.pipelines.flows.progress import FAILED, FlowProgress, ProgressWriter
from headrace.testing import RunningBroker
from tests.cli.conftest import PROGRAMS, Run
from tests.cli.test_terminal import at_a_terminal
from tests.support.effort import is_long


def test_status_watch_redraws_until_it_is_interrupted(running: RunningBroker, tmp_path: Path) -> None:
    writer = ProgressWriter(running.bootstrap, pytest.fail)
    flow = FlowProgress("orders", "checked", batch_id=7, lag=120)
    writer.publish(flow)
    screen = at_a_terminal(running, tmp_path, "pipeline", "status", "orders", "--watch")
    screen.expect("flow.*state.*batch.*rows/s.*lag")
    screen.expect(r"orders\.checked.*running.* 7 .* 120 ")
    flow.state, flow.batch_id, flow.last_error = FAILED, 8, "no such topic"
    writer.publish(flow)
    writer.close()
    screen.expect(r"orders\.checked.*failed.* 8 .*no such topic")
    screen.sendintr()
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
    assert "Traceback" not in (screen.before or "")


def test_piped_status_is_not_truncated(running: RunningBroker, headrace: Run) -> None:
    error = "the broker said [red]no[/red] " + "word " * 60 + "end"
    writer = ProgressWriter(running.bootstrap, pytest.fail)
    writer.publish(FlowProgress("piped", "a-flow-with-a-long-name", batch_id=7, state=FAILED, last_error=error))
    writer.close()
    heading, line = headrace("pipeline", "status", "piped").out.splitlines()
    assert heading.split()[:2] == ["FLOW", "STATE"]
    assert line.split()[:2] == ["piped.a-flow-with-a-long-name", "failed"]
    assert line.endswith(error)


@pytest.mark.skipif(not is_long(), reason="starts a broker and Spark (HEADRACE_EFFORT=long)")
def test_demo_redraws_its_table_until_it_is_interrupted(tmp_path: Path) -> None:
    screen = pexpect.spawn(
        str(PROGRAMS / "headrace"),
        ["demo", "wordcount", "--data", str(tmp_path / "data")],
        env=dict(os.environ),
        encoding="utf-8",
        timeout=120,
        dimensions=(50, 140),
    )
    screen.expect("Starting Spark")
    screen.expect("Type next, in another terminal")
    screen.expect(r"streams-wordcount-output: \d\d+ words")
    screen.expect(r"the .*│ +\d+ │ █+")
    screen.sendintr()
    screen.expect("Stopping")
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
    assert not re.search("Traceback|Exception", screen.before or "")
