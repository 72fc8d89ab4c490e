"""Progress of a flow as users see it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from headrace.pipelines.flows.progress import FlowProgress, as_of, describe, source_offsets, update_from_event
from headrace.pipelines.flows.status_screen import screen_of


def shown(*flows: FlowProgress, width: int = 200, height: int = 50) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(screen_of([asdict(flow) for flow in flows], width, height))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_flow_without_a_batch_has_no_lag() -> None:
    flow = FlowProgress("shout", "copy")
    assert flow.lag is None
    assert describe(asdict(flow)) == "shout.copy  running  no batch yet"
    assert shown(flow).splitlines()[1].split()[:4] == ["shout.copy", "running", "–", "–"]


def test_a_flow_that_has_caught_up_has_lag_0() -> None:
    flow = FlowProgress("shout", "copy", batch_id=0, lag=0, batch_ms=120)
    assert describe(asdict(flow)) == "shout.copy  running  batch 0  0 rows/s  lag 0  120 ms"
    assert shown(flow).splitlines()[1].split()[:4] == ["shout.copy", "running", "0", "0"]


@pytest.mark.parametrize("text", [None, "null", "7", "[1, 2]", '{"logOffset": 3}', '{"after": null}'])
def test_offsets_of_other_sources_are_ignored(text: str | None) -> None:
    assert source_offsets(text) == {}


def test_offsets_of_a_progress_event() -> None:
    assert source_offsets('{"orders": {"0": 12}}') == {("orders", 0): 12}


def test_screen_fits_80_by_24_with_whole_names_and_what_runs_first() -> None:
    names = [f"a-pipeline-with-a-long-name-{number:02}" for number in range(40)]
    flows = [
        FlowProgress(
            name,
            "its-flow-with-a-name",
            state="running" if number % 2 else "stopped",
            batch_id=123456,
            lag=9_999_999,
            processed_rows_per_second=123456.0,
            last_error="a very long reason " * 20 if number == 1 else None,
        )
        for number, name in enumerate(names)
    ]
    flows[7].state = "failed"
    lines = shown(*flows, width=80, height=24).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert all(line.split()[0].endswith(".its-flow-with-a-name") for line in lines[1:-1] if not line.startswith(" "))
    states = [line.split()[1] for line in lines[1:-1] if not line.startswith(" ")]
    assert states == sorted(states, key=["failed", "running", "stopped"].index) and states[0] == "failed"
    assert re.fullmatch(r"… and \d+ more flows: name a pipeline to see only its flows", lines[-1].strip())


def test_every_flow_is_on_a_screen_that_is_high_enough() -> None:
    flows = [FlowProgress("p", f"f{number}") for number in range(23)]
    lines = shown(*flows, width=80, height=24).splitlines()
    assert len(lines) == 24 and "more" not in lines[-1]


@pytest.mark.parametrize(("state", "age_ms", "now"), [
    ("running", 10_001, "lost"), ("restarting", 10_001, "lost"), ("running", 9_999, "running"),
    ("stopped", 99_999, "stopped"), ("failed", 99_999, "failed"),
])  # fmt: skip
def test_driver_that_misses_two_heartbeats_is_lost(state: str, age_ms: int, now: str) -> None:
    flow = FlowProgress("p", "f", state=state, at_ms=1_000_000)
    assert flow.heartbeat_ms == 5_000
    assert as_of(asdict(flow), 1_000_000 + age_ms)["state"] == now


def test_flow_of_an_earlier_version_without_heartbeats_keeps_its_state() -> None:
    old = {name: value for name, value in asdict(FlowProgress("p", "f", at_ms=1)).items() if name != "heartbeat_ms"}
    assert as_of(old, 10**12)["state"] == "running"


def event(end: str, latest: str, *, batch: int = 0, rows: int = 5, late: int = 0, written: int | None = None) -> Any:
    operator = SimpleNamespace(numRowsTotal=1, memoryUsedBytes=1, numRowsDroppedByWatermark=late)
    return SimpleNamespace(
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest)], batchId=batch, numInputRows=rows,
        batchDuration=7, inputRowsPerSecond=1.0, processedRowsPerSecond=1.0, stateOperators=[operator],
        observedMetrics={} if written is None else {"headrace_written": {"rows": written}}, durationMs={"addBatch": 5},
        eventTime={"watermark": "2026-01-01T00:00:00.000Z", "max": "2026-01-01T00:00:10.500Z"},
    )  # fmt: skip


def test_totals_add_up_over_batches() -> None:
    flow = FlowProgress("p", "f")
    for batch in range(3):
        update_from_event(flow, event('{"t":{"0":5}}', '{"t":{"0":9}}', batch=batch, late=2, written=4))
    assert (flow.read_rows, flow.written_rows, flow.late_rows, flow.lag, flow.lag_bytes) == (15, 12, 6, 4, None)
    assert (flow.durations_ms, flow.is_stateful, flow.watermark_delay_ms) == ({"addBatch": 5}, True, 10_500)


@pytest.mark.parametrize(
    ("latest", "lag", "lag_bytes"),
    [
        ('{"position": 900, "unit": "bytes", "behind": 800}', 0, 800),
        ('{"position": 103, "unit": "changes", "behind": 3}', 3, None),
    ],
)
def test_lag_of_change_capture_is_in_bytes_or_changes(latest: str, lag: int, lag_bytes: int | None) -> None:
    flow = FlowProgress("p", "f")
    update_from_event(flow, event('{"position": 100}', latest))
    assert (flow.lag, flow.lag_bytes) == (lag, lag_bytes)


@pytest.mark.parametrize(
    ("lag_bytes", "seconds", "words"),
    [(800, 3.2, ["800", "B", "3", "s"]), (12_345_678, 75.0, ["12", "MiB", "75", "s"]), (0, 0.0, ["5"])],
)
def test_screen_has_the_lag_with_its_unit_and_for_how_long(lag_bytes: int, seconds: float, words: list[str]) -> None:
    flow = FlowProgress("p", "f", batch_id=7, lag=5, lag_bytes=lag_bytes, lag_seconds=seconds)
    heads, row = (line.split() for line in shown(flow, width=80).splitlines())
    assert heads[:4] == ["flow", "state", "lag", "behind"]
    assert row[2 : 2 + len(words)] == words


def test_progress_of_a_snapshot_is_shown_until_it_is_done() -> None:
    flow = FlowProgress("p", "f")
    latest = '{"position": 7, "unit": "changes", "behind": 0}'
    state = {"todo": ["orders"], "after": [2], "chunk": 1, "rows": 20, "of": 100, "table": "orders"}
    update_from_event(flow, event(json.dumps({"position": 7, "snapshot": state}), latest))
    assert flow.snapshot == {"table": "orders", "rows": 20, "of": 100}
    update_from_event(flow, event(json.dumps({"position": 7, "snapshot": {**state, "todo": []}}), latest))
    assert flow.snapshot is None
