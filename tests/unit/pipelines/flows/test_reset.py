"""A reset skips no rows of a source that cannot be moved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.reset import move_flow, reset
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.flows.spec import BOOTSTRAP, PipelineSpec
from headrace.pipelines.lite.batch_log import BatchLog

# A client connects only when it has something to ask.
NOWHERE = "127.0.0.1:1"
OFFSETS = [{"after": 6}, {"logOffset": 2}, {"lsn": "0/16B3748"}, 41]


def spec_of(folder: Path) -> PipelineSpec:
    return PipelineSpec(folder, "rows", str(folder / "storage"), None, {BOOTSTRAP: NOWHERE}, ())


def checkpoint_of(spec: PipelineSpec, flow: str, *sources: object, is_finished: bool) -> Checkpoint:
    """A checkpoint whose last batch ends at these offsets."""
    checkpoint = Checkpoint(spec.storage_path / CHECKPOINTS / flow)
    log = BatchLog(checkpoint.path)
    for number in range(2):
        log.begin({})
        lines = ["v1", "{}", *map(json.dumps, sources)]
        (checkpoint.path / "offsets" / str(number)).write_text("\n".join(lines))
        if is_finished or not number:
            log.finish(number)
    return checkpoint


@pytest.mark.parametrize("offset", OFFSETS, ids=str)
def test_reset_refuses_to_skip_an_unfinished_batch(tmp_path: Path, offset: object) -> None:
    spec = spec_of(tmp_path)
    checkpoint = checkpoint_of(spec, "rows", {"orders": {"0": 5}}, offset, is_finished=False)
    finished = checkpoint_of(spec, "a", offset, is_finished=True)
    for attempt in (
        lambda: reset(spec, "earliest", flow=None, bootstrap=NOWHERE),
        lambda: move_flow(spec, "rows", "latest"),
    ):
        with pytest.raises(PipelineError, match=r"flow 'rows' has begun batch 1 and did not finish it.*--once"):
            attempt()
    # No flow was moved, also none before the refused one.
    assert (checkpoint.last_batch(), checkpoint.is_unfinished(), finished.last_batch()) == (1, True, 1)


@pytest.mark.parametrize("offset", OFFSETS, ids=str)
def test_reset_keeps_the_offset_of_a_finished_batch(tmp_path: Path, offset: object) -> None:
    spec = spec_of(tmp_path)
    checkpoint = checkpoint_of(spec, "rows", offset, is_finished=True)
    assert reset(spec, "earliest", flow=None, bootstrap=NOWHERE) == {"rows": [offset]}
    assert (checkpoint.last_batch(), checkpoint.offsets(), checkpoint.is_unfinished()) == (2, [offset], False)


def test_partitions_that_are_not_named_keep_their_offsets(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    checkpoint_of(spec, "rows", {"orders": {"0": 5, "1": 7}}, is_finished=True)
    moved = reset(spec, '{"orders":{"0":2}}', flow=None, bootstrap=NOWHERE)
    assert moved == {"rows": [{"orders": {"0": 2, "1": 7}}]}


def test_reset_refuses_to_skip_an_unfinished_batch_of_partitions_that_are_not_named(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    checkpoint = checkpoint_of(spec, "rows", {"orders": {"0": 5, "1": 7}}, is_finished=False)
    with pytest.raises(PipelineError, match=r"has begun batch 1 and did not finish it.* orders-1 .*--once"):
        reset(spec, '{"orders":{"0":2}}', flow=None, bootstrap=NOWHERE)
    assert (checkpoint.last_batch(), checkpoint.is_unfinished()) == (1, True)
    moved = reset(spec, '{"orders":{"0":2,"1":3}}', flow=None, bootstrap=NOWHERE)
    assert moved == {"rows": [{"orders": {"0": 2, "1": 3}}]}
