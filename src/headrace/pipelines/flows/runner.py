"""Runs all flows of a pipeline, continuously or until they have read the existing records.

    run = PipelineRun(spec, spark, report=print)
    run.start()                # resolves the graph, checks every flow, starts the queries
    run.supervise()            # until stop() or a permanent failure

The runner restarts a failed flow after a pause that doubles up to a minute. It stops with an error if the definition of
a flow no longer fits its checkpoint, or if a flow fails before it has finished a batch. It publishes the progress of
every flow after each batch (see `progress`). One thread owns the run; a signal handler may call `stop`.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.sql import functions as f

from headrace.pipelines.brokers import kafka_settings, security_of
from headrace.pipelines.errors import PipelineError, is_permanent
from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.flows.flow_names import check_removed_flows, store_flows
from headrace.pipelines.flows.graph import BatchSink, PipelineGraph, ResolvedFlow, load_graph
from headrace.pipelines.flows.progress import (
    FAILED,
    RESTARTING,
    RUNNING,
    STOPPED,
    WRITTEN,
    FlowProgress,
    ProgressWriter,
    update_from_event,
)
from headrace.pipelines.flows.run_lock import CHECKPOINTS, RunLock
from headrace.pipelines.flows.running_flow import FIRST_PAUSE_S, RunningFlow
from headrace.pipelines.flows.spec import REALTIME, PipelineSpec
from headrace.pipelines.sink.stable_tasks import stable_tasks
from headrace.pipelines.spark.plan_guard import guard, is_update_plan, plan_text, shape_of, stored_shape
from headrace.pipelines.spark.realtime import connector_sink
from headrace.pipelines.task_sink import written_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_LOOK_EVERY_S: Final = 0.25
_CHECK_EVERY_S: Final = 0.02
# How long `stop` waits for running batches. Then it cancels them, and the next start runs them again.
_GRACE_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 60.0
_HEALTHY_AFTER_S: Final = 300.0
# Spark gives a new Python process ten seconds to start. On a busy machine that is too short, and no pipeline error.
_SLOW_WORKER_START: Final = "Python worker failed to connect back"
_MOST_SLOW_STARTS: Final = 3
_VIEW_REFRESH_S: Final = 10.0


@dataclass
class PipelineRun:
    spec: PipelineSpec
    spark: SparkSession
    report: Callable[[str], None] = print
    once: bool = False
    # Directory of the checkpoints below the storage root. A replay uses its own.
    checkpoints: str = CHECKPOINTS
    only_flow: str | None = None
    trigger_interval: str | None = None
    accept_changed_query: bool = False
    # Whether the other flows go on when one fails for good. Its reason is then in `failures`.
    isolated: bool = False
    failures: list[str] = field(default_factory=list)
    graph: PipelineGraph | None = None
    flows: list[RunningFlow] = field(default_factory=list)
    views: list[ResolvedFlow] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _writer: ProgressWriter | None = None
    _views_refreshed_at: float = 0.0
    _lock: RunLock | None = None

    def resolve(self) -> list[ResolvedFlow]:
        """Analyses the flows without starting them. Raises PipelineError with file and line."""
        for name, value in self.spec.configuration.items():
            # The session already has the static settings. The others are set for this pipeline.
            if self.spark.conf.isModifiable(name) or not name.startswith("spark."):
                self.spark.conf.set(name, value)
        graph = self.graph or load_graph(self.spark, self.spec)
        return graph.resolve(self._prepare)

    def start(self) -> None:
        self._lock = RunLock(self.spec, self.checkpoints)
        try:
            self._start()
        except BaseException:
            # For every exception, interrupts included: release the lock.
            self._lock.release()
            raise

    def _start(self) -> None:
        resolved = self.resolve()
        self.views = [item for item in resolved if isinstance(item.target, MaterializedView)]
        streams = [item for item in resolved if not isinstance(item.target, (MaterializedView, TemporaryView))]
        if self.only_flow is not None:
            streams = [item for item in streams if item.flow.name == self.only_flow]
            self.views = []
            if not streams:
                raise PipelineError(f"pipeline {self.spec.name!r} has no streaming flow {self.only_flow!r}")
        if self.spec.bootstrap:
            security = security_of(kafka_settings(self.spec.configuration))
            self._writer = ProgressWriter(self.spec.bootstrap, self.report, security)
        for item in streams:
            self.flows.append(RunningFlow(item, FlowProgress(self.spec.name, item.flow.name)))
        self._check_plans()
        for flow in self.flows:
            self._start_query(flow)

    def _prepare(self, output: Output, frame: DataFrame) -> None:
        if isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(output.name)
        elif isinstance(output, Table) and not self.spark.catalog.tableExists(output.name):
            path = self.spec.storage_uri("tables", output.name)
            schema = output.schema if output.schema is not None else frame.schema
            Path(path).mkdir(parents=True, exist_ok=True)
            self.spark.catalog.createTable(output.name, path=path, source=output.format or "parquet", schema=schema)

    def checkpoint_of(self, flow: RunningFlow) -> str:
        return self.spec.storage_uri(self.checkpoints, flow.name)

    def _check_plans(self) -> None:
        """Refuses checkpoints that do not fit their flows, and flows that lost their checkpoint by a rename."""
        if not self.spec.is_local:
            return
        shapes = {flow.name: shape_of(plan_text(flow.resolved.frame), _sink_of(flow)) for flow in self.flows}
        is_whole = self.only_flow is None and self.checkpoints == CHECKPOINTS
        if is_whole:
            for sentence in check_removed_flows(self.spec, shapes):
                self.report(sentence)
        for name, shape in shapes.items():
            path = self.spec.storage_path / self.checkpoints / name
            guard(path, name, shape, accept=self.accept_changed_query)
        if is_whole:
            store_flows(self.spec, shapes)

    def _start_query(self, flow: RunningFlow) -> None:
        target, frame = flow.resolved.target, flow.resolved.frame
        conf = {**self.spec.configuration, **flow.resolved.flow.spark_conf}
        realtime = None if self.once else conf.get(REALTIME)
        flow.is_realtime = bool(realtime)
        mode = conf.get("headrace.output.mode") or (
            "update" if realtime or is_update_plan(plan_text(frame)) else "append"
        )
        if mode == "append":
            frame = stable_tasks(frame, target, conf)
        if not realtime:
            frame = frame.observe(WRITTEN, f.count(f.lit(1)).alias("rows"))
        writer = frame.writeStream
        if realtime:
            writer = writer.format("kafka").options(**connector_sink(flow.name, target)).trigger(realTime=realtime)
        elif isinstance(target, BatchSink):
            writer = writer.foreachBatch(target.write)
        elif isinstance(target, Sink) and target.format == "headrace" and mode != "complete":
            # Update flows have this prefix in their ledger, so existing checkpoints need it.
            named = {"transactionalIdPrefix": f"{self.spec.name}.{self._ledger_name(flow)}"} if mode == "update" else {}
            writer = written_by_tasks(frame, {**named, **target.options})
        elif isinstance(target, Sink):
            writer = writer.format(target.format).options(**dict(target.options))
        else:
            assert isinstance(target, StreamingTable)
            writer = writer.format(target.format or "parquet").option(
                "path", self.spec.storage_uri("tables", target.name)
            )
        writer = writer.queryName(f"{self.spec.name}.{flow.name}").outputMode(mode)
        writer = writer.option("checkpointLocation", self.checkpoint_of(flow))
        if self.once:
            writer = writer.trigger(availableNow=True)
        elif (interval := self.trigger_interval or conf.get("headrace.trigger.interval")) and not realtime:
            writer = writer.trigger(processingTime=interval)
        try:
            flow.query = writer.start()
        except Exception as error:
            # Boundary to Spark, which raises its own and py4j's errors: the user must not see a Java stack trace.
            raise PipelineError(f"flow {flow.name!r} cannot start: {failure_reason(error)}") from error
        flow.started_at, flow.start_again_at, flow.seen_batch = time.monotonic(), None, -1
        flow.caught_up_at = flow.started_at
        flow.progress.state = RUNNING
        self._publish(flow)

    def _ledger_name(self, flow: RunningFlow) -> str:
        """The flow's name in its ledger: the one that it had first, if it was renamed."""
        shape = stored_shape(Path(self.checkpoint_of(flow))) if self.spec.is_local else None
        return str((shape or {}).get("flow", flow.name))

    def supervise(self) -> None:
        """Watches the flows until all have ended (`once`) or `stop` was called. Then stops the running ones. Raises
        PipelineError with the failures of an isolated run at its end."""
        _make_active(self.spark)
        try:
            while not self._stop.is_set():
                for flow in self.flows:
                    self._check_flow(flow)
                    self._beat(flow)
                if (self.once or self.failures) and all(flow.has_ended for flow in self.flows):
                    break
                if not self.once:
                    self._refresh_views(every_s=_VIEW_REFRESH_S)
                self._stop.wait(_LOOK_EVERY_S)
            if not self._stop.is_set():
                self._refresh_views(every_s=0)
        finally:
            self._shut_down()
        if self.failures:
            raise PipelineError("; ".join(self.failures))

    def stop(self) -> None:
        self._stop.set()

    def _check_flow(self, flow: RunningFlow) -> None:
        if flow.query is None:
            if flow.start_again_at is not None and time.monotonic() >= flow.start_again_at:
                try:
                    self._start_query(flow)
                except PipelineError as refusal:
                    self._failed(flow, refusal)
            return
        active = flow.query.isActive
        self._take_progress(flow)
        if not active:
            error = flow.query.exception()
            flow.query = None
            if error is None:
                flow.progress.state = STOPPED
                self._publish(flow)
            else:
                self._failed(flow, error)
        elif time.monotonic() - flow.started_at > _HEALTHY_AFTER_S:
            flow.pause_s = FIRST_PAUSE_S

    def _beat(self, flow: RunningFlow) -> None:
        """Reports a flow without a new batch once per heartbeat, so that readers know that its driver lives."""
        is_alive = flow.query is not None or flow.start_again_at is not None
        if is_alive and time.time() * 1000 - flow.progress.at_ms >= flow.progress.heartbeat_ms:
            self._publish(flow)

    def _take_progress(self, flow: RunningFlow) -> None:
        assert flow.query is not None
        event = flow.query.lastProgress
        if event is None or (event.batchId == flow.seen_batch and event.numInputRows == 0):
            return
        events = [event]
        if event.batchId > flow.seen_batch + 1:
            # Batches may end faster than this thread looks. The totals need each of them.
            events = [one for one in flow.query.recentProgress if one.batchId > flow.seen_batch]
        elif event.batchId == flow.seen_batch and (
            event.numInputRows == flow.progress.input_rows and event.batchDuration == flow.progress.batch_ms
        ):
            return
        for one in events:
            flow.finished_batches += one.batchId != flow.seen_batch
            flow.seen_batch = one.batchId
            update_from_event(flow.progress, one)
        flow.note_lag(time.monotonic())
        if flow.resolved.writes_dead_letters:
            flow.progress.dead_letters = flow.progress.written_rows
            # It checks the rules of its source a second time. The flow of the good rows has their counts.
            flow.progress.rules.clear()
        if self._writer is not None:
            if flow.progress.end_offsets:
                flow.progress.missed = self._writer.missed(str(event.id))
            self._writer.commit(flow.progress)
        self._publish(flow)

    def totals(self) -> list[dict[str, object]]:
        return [flow.totals() for flow in self.flows]

    def _failed(self, flow: RunningFlow, error: object) -> None:
        reason = failure_reason(error)
        flow.progress.last_error = reason
        # A flow that never finished a batch has a permanent error. A run with `once` does not restart flows.
        started_slowly = _SLOW_WORKER_START in reason and flow.progress.restarts < _MOST_SLOW_STARTS
        stops_alone = self.once or self.isolated or is_permanent(str(error))
        if (stops_alone or flow.finished_batches == 0) and not started_slowly:
            flow.progress.state = FAILED
            self._publish(flow)
            failure = f"flow {flow.name!r} failed: {reason}"
            self.failures.append(failure)
            if not stops_alone:
                raise PipelineError("; ".join(self.failures))
            # The other flows go on. The run ends with this failure when they have ended.
            if len(self.flows) > 1 and not self.once:
                self.report(f"{failure}. The other flows go on")
            return
        flow.progress.state = RESTARTING
        flow.progress.restarts += 1
        flow.start_again_at = time.monotonic() + flow.pause_s
        self.report(f"flow {flow.name!r} failed and starts again in {flow.pause_s:g} s: {reason}")
        flow.pause_s = min(flow.pause_s * 2, _LONGEST_PAUSE_S)
        self._publish(flow)

    def _refresh_views(self, every_s: float) -> None:
        if not self.views or time.monotonic() - self._views_refreshed_at < every_s:
            return
        # Tables of a view may have new files since Spark listed them.
        for flow in self.flows:
            if isinstance(flow.resolved.target, StreamingTable):
                self.spark.catalog.refreshTable(flow.resolved.target.name)
        for item in self.views:
            frame = item.flow.func()
            path = self.spec.storage_uri("tables", item.target.name)
            fresh = f"{path}.next"
            frame.write.format(item.target.format or "parquet").mode("overwrite").save(fresh)
            shutil.rmtree(path, ignore_errors=True)
            Path(fresh).rename(path)
            self.spark.catalog.refreshTable(item.target.name)
        self._views_refreshed_at = time.monotonic()

    def _let_batches_finish(self) -> None:
        """Waits for a limited time until every query is between two batches, because a cancelled batch runs again. Does
        not wait in real-time mode, where a batch lasts from checkpoint to checkpoint."""
        deadline = time.monotonic() + _GRACE_S
        waiting = {
            flow.name: (flow.query, _batch_of(flow.query))
            for flow in self.flows
            if flow.query is not None and not flow.is_realtime
        }
        while waiting and time.monotonic() < deadline:
            for name, (query, batch) in list(waiting.items()):
                if not query.isActive or not query.status["isTriggerActive"] or _batch_of(query) != batch:
                    del waiting[name]
            if waiting:
                time.sleep(_CHECK_EVERY_S)

    def _publish(self, flow: RunningFlow) -> None:
        if self._writer is not None:
            self._writer.publish(flow.progress)

    def _shut_down(self) -> None:
        self._let_batches_finish()
        for flow in self.flows:
            if flow.query is not None:
                flow.query.stop()
                self._take_progress(flow)
                flow.query = None
                if flow.progress.state == RUNNING:
                    flow.progress.state = STOPPED
                    self._publish(flow)
        if self._lock is not None:
            self._lock.release()
        if self._writer is not None:
            self._writer.close()


def _sink_of(flow: RunningFlow) -> str:
    """The target of the flow, as a part of its shape."""
    target = flow.resolved.target
    if isinstance(target, Sink):
        return f"{target.format}:{target.options.get('topic') or target.options.get('path') or target.name}"
    return str(target.name)


def _batch_of(query: StreamingQuery) -> int:
    """Number of the last batch that the query finished."""
    event = query.lastProgress
    return -1 if event is None else int(event.batchId)


def _make_active(spark: SparkSession) -> None:
    """Spark looks up data sources in the active session of the thread. The supervising thread may not be the one that
    created the session, and a restarted query would not find its data source."""
    type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
