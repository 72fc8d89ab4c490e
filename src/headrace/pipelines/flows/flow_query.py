"""The streaming query of a flow: its target, output mode, trigger and checkpoint, as Spark's writer takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.pipelines.output import Sink, StreamingTable
from pyspark.sql import functions as f

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.graph import BatchSink
from headrace.pipelines.flows.progress import WRITTEN
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.flows.running_flow import RunningFlow
from headrace.pipelines.flows.spec import REALTIME, PipelineSpec
from headrace.pipelines.sink.stable_tasks import stable_tasks
from headrace.pipelines.spark.plan_guard import is_update_plan, plan_text, stored_shape
from headrace.pipelines.spark.realtime import connector_sink
from headrace.pipelines.task_sink import written_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


def started_query(
    flow: RunningFlow, spec: PipelineSpec, checkpoints: str, trigger_interval: str | None, *, once: bool
) -> StreamingQuery:
    """`checkpoints` is the directory of the checkpoints below the storage. Raises PipelineError."""
    target, frame = flow.resolved.target, flow.resolved.frame
    conf = {**spec.configuration, **flow.resolved.flow.spark_conf}
    realtime = None if once else conf.get(REALTIME)
    flow.is_realtime = bool(realtime)
    mode = conf.get("headrace.output.mode") or ("update" if realtime or is_update_plan(plan_text(frame)) else "append")
    if mode == "append":
        frame = stable_tasks(frame, target, conf)
    checkpoint = spec.storage_uri(checkpoints, flow.name)
    if realtime:
        sink = frame.writeStream.format("kafka").options(**connector_sink(flow.name, target))
        writer = sink.trigger(realTime=realtime)
    else:
        frame = frame.observe(WRITTEN, f.count(f.lit(1)).alias("rows"))
        writer = _to_target(flow, spec, frame, mode, checkpoint)
    # A replay may run beside its flow, and Spark wants two names.
    name = f"{spec.name}.{flow.name}" + ("" if checkpoints == CHECKPOINTS else f".{checkpoints}")
    writer = writer.queryName(name).outputMode(mode).option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    elif (interval := trigger_interval or conf.get("headrace.trigger.interval")) and not realtime:
        writer = writer.trigger(processingTime=interval)
    if spec.is_local:
        Checkpoint(Path(checkpoint)).remove_unfinished_start()
    try:
        return writer.start()
    except Exception as error:
        # Boundary to Spark, which raises its own and py4j's errors: the user must not see a Java stack trace.
        raise PipelineError(f"flow {flow.name!r} cannot start: {failure_reason(error)}") from error


def _to_target(flow: RunningFlow, spec: PipelineSpec, frame: DataFrame, mode: str, checkpoint: str) -> DataStreamWriter:
    target, writer = flow.resolved.target, frame.writeStream
    if isinstance(target, BatchSink):
        return writer.foreachBatch(target.write)
    if isinstance(target, Sink) and target.format == "headrace" and mode != "complete":
        # Update flows have this prefix in their ledger, so existing checkpoints need it.
        prefix = f"{spec.name}.{_ledger_name(flow, spec, checkpoint)}"
        named = {"transactionalIdPrefix": prefix} if mode == "update" else {}
        return written_by_tasks(frame, {**named, **target.options})
    if isinstance(target, Sink):
        return writer.format(target.format).options(**dict(target.options))
    assert isinstance(target, StreamingTable)
    return writer.format(target.format or "parquet").option("path", spec.storage_uri("tables", target.name))


def _ledger_name(flow: RunningFlow, spec: PipelineSpec, checkpoint: str) -> str:
    """The flow's name in its ledger: the one that it had first, if it was renamed."""
    shape = stored_shape(Path(checkpoint)) if spec.is_local else None
    return str((shape or {}).get("flow", flow.name))
