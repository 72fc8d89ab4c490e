"""`headrace pipeline replay DIR --flow F --from T --to T`: runs a flow again over a past range.

The replay writes a separate checkpoint with two batches: a finished one that ends at the offsets of `--from`, and an
unfinished one that ends at the offsets of `--to`. Spark finishes a batch that its checkpoint has begun, so it runs
exactly this batch. The flow's own checkpoint does not change.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.pipelines.brokers import client_of, isolation_of
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.reset import flow_checkpoints, moved_to
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.graph import PipelineGraph

_FOLDER: Final = "replays"
_PATIENCE_S: Final = 3600.0


def replay(
    spec: PipelineSpec,
    spark: SparkSession,
    *,
    flow: str,
    begin: str,
    end: str,
    bootstrap: str | None,
    report: Callable[[str], None],
    graph: PipelineGraph | None = None,
) -> int:
    """Returns the number of rows that were read. `graph`: of a connector, which has no definition files."""
    checkpoint = flow_checkpoints(spec, flow)[flow]
    if not checkpoint.exists():
        raise PipelineError(f"flow {flow!r} has never run: there is nothing to replay")
    if checkpoint.is_stateful():
        raise PipelineError(f"flow {flow!r} keeps state: reset it to earliest instead of replaying a stretch")
    isolation = isolation_of(spec)
    with client_of(spec, bootstrap) as client:
        starts = [moved_to(client, source, begin, isolation) for source in checkpoint.offsets()]
        ends = [moved_to(client, source, end, isolation) for source in checkpoint.offsets()]
    folder = spec.storage_path / _FOLDER / flow
    _write_checkpoint(checkpoint, folder, starts, ends)
    run = PipelineRun(spec, spark, report, checkpoints=_FOLDER, only_flow=flow, trigger_interval="24 hours")
    run.graph = graph
    try:
        run.start()
        return _wait_for_batch(run)
    finally:
        run.stop()
        run.supervise()
        shutil.rmtree(folder, ignore_errors=True)


def _write_checkpoint(
    origin: Checkpoint, folder: Path, starts: list[dict[str, object]], ends: list[dict[str, object]]
) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "offsets").mkdir(parents=True)
    version, metadata, *_ = (origin.path / "offsets" / str(origin.last_batch())).read_text().splitlines()
    for batch, sources in enumerate((starts, ends)):
        (folder / "offsets" / str(batch)).write_text("\n".join([version, metadata, *map(json.dumps, sources)]))
    (folder / "commits").mkdir()
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))


def _wait_for_batch(run: PipelineRun) -> int:
    query = run.flows[0].query
    assert query is not None
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        for event in query.recentProgress:
            if event.batchId == 1:
                return int(event.numInputRows)
        if (error := query.exception()) is not None:
            raise PipelineError(f"the replay failed: {failure_reason(error)}")
        time.sleep(0.1)
    raise PipelineError("the replay did not end within an hour")
