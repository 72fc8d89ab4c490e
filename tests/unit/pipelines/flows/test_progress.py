"""Progress of a flow as users see it."""

from __future__ import annotations

import io
from dataclasses import asdict

import pytest
from rich.console import Console

from headrace.pipelines.flows.progress import FlowProgress, describe, source_offsets
from headrace.pipelines.flows.status_screen import table_of


def shown(flow: FlowProgress) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table_of([asdict(flow)]))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_flow_without_a_batch_has_no_lag() -> None:
    flow = FlowProgress("shout", "copy")
    assert flow.lag is None
    assert describe(asdict(flow)) == "shout.copy  running  no batch yet"
    assert shown(flow).splitlines()[1].split()[:8] == ["shout.copy", "running", *["–"] * 6]


def test_a_flow_that_has_caught_up_has_lag_0() -> None:
    flow = FlowProgress("shout", "copy", batch_id=0, lag=0, batch_ms=120)
    assert describe(asdict(flow)) == "shout.copy  running  batch 0  0 rows/s  lag 0  120 ms"
    assert shown(flow).splitlines()[1].split()[:8] == ["shout.copy", "running", "0", "0", "0", "120", "0", "0"]


@pytest.mark.parametrize("text", [None, "null", "7", "[1, 2]", '{"logOffset": 3}', '{"after": null}'])
def test_offsets_of_other_sources_are_ignored(text: str | None) -> None:
    assert source_offsets(text) == {}


def test_offsets_of_a_progress_event() -> None:
    assert source_offsets('{"orders": {"0": 12}}') == {("orders", 0): 12}
