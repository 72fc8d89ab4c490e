"""Runs all flows of a pipeline, continuously or until they have read the existing records.

    run = PipelineRun(spec, spark, report=print)
    run.start()                # resolves the graph, checks every flow, starts the queries
    run.supervise()            # until stop() or a permanent failure

The runner restarts a failed flow after a pause that doubles up to a minute. It stops with an error if the definition of
a flow no longer fits its checkpoint, or if a flow fails before it has finished a batch. It publishes the progress of
every flow after each batch (see `progress`). One thread owns the run; a signal handler may call `stop`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import MaterializedView, Output, StreamingTable, Table, TemporaryView

from headrace.pipelines.brokers import kafka_settings, security_of
from headrace.pipelines.errors import PipelineError, is_permanent
from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.flows.flow_control import FlowControl, control_of
from headrace.pipelines.flows.flow_names import check_removed_flows, store_flows
from headrace.pipelines.flows.flow_places import described_flow
from headrace.pipelines.flows.flow_query import started_query
from headrace.pipelines.flows.graph import PipelineGraph, ResolvedFlow, load_graph
from headrace.pipelines.flows.materialized_views import write_views
from headrace.pipelines.flows.progress import (
    FAILED,
    RESTARTING,
    RUNNING,
    STOPPED,
    FlowProgress,
    Places,
    ProgressWriter,
    update_from_event,
)
from headrace.pipelines.flows.run_lock import CHECKPOINTS, RunLock
from headrace.pipelines.flows.running_flow import FIRST_PAUSE_S, RunningFlow, finished_batch
from headrace.pipelines.flows.session import make_active
from headrace.pipelines.flows.spec import FORMAT, PipelineSpec
from headrace.pipelines.spark.plan_guard import guard, plan_text, shape_of
from headrace.pipelines.spark.source_environment import SOURCE, complete_source_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_LOOK_EVERY_S: Final = 0.25
_CHECK_EVERY_S: Final = 0.02
# How long `stop` waits for running batches. Then it cancels them, and the next start runs them again.
_GRACE_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 60.0
_HEALTHY_AFTER_S: Final = 300.0
# Failures of machines: Spark gives a new Python process ten seconds to start, and gives a batch up after four lost
# executors. Even a flow without a batch starts again: for about seven minutes, or three times in a run with `once`.
_MACHINE_FAILURES: Final = ("Python worker failed to connect back", "ExecutorLostFailure")
_MOST_RESTARTS: Final = 12
_MOST_RESTARTS_IN_ONCE: Final = 3
_BETWEEN_SLOW_STARTS_S: Final = 5.0
# Ten flows that start together share the processors, and none of them would be ready in time.
_STARTS_AT_ONCE: Final = max(1, os.cpu_count() or 1)
_LONGEST_START_S: Final = 10.0
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
    # What a connector reads and writes.
    places: Places | None = None
    # Whether people may stop, start, reset and replay flows while the run lasts (see `flow_control`).
    is_controlled: bool = False
    # Whether the other flows go on when one fails before its first batch. Its reason is then in `failures`.
    isolated: bool = False
    failures: list[str] = field(default_factory=list)
    graph: PipelineGraph | None = None
    flows: list[RunningFlow] = field(default_factory=list)
    views: list[ResolvedFlow] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _writer: ProgressWriter | None = None
    _views_refreshed_at: float = 0.0
    _lock: RunLock | None = None
    _control: FlowControl | None = None

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
        security = security_of(kafka_settings(self.spec.configuration)) if self.spec.bootstrap else None
        # A replay is not the flow: it must not report as the flow, nor move the offsets of its group.
        if self.spec.bootstrap and self.checkpoints == CHECKPOINTS:
            self._writer = ProgressWriter(self.spec.bootstrap, self.report, security)
        for item in streams:
            self.flows.append(described_flow(item, self.spec, self.trigger_interval, self.places))
        self._check_plans()
        if self.is_controlled:
            self._control = control_of(self.spec, self, security, self.report)
        if len(self.flows) > 1 and self.spec.configuration.get(FORMAT, SOURCE) == SOURCE:
            complete_source_environment(self.spark)
        for flow in self.flows:
            deadline = time.monotonic() + _LONGEST_START_S
            while self._are_many_starting() and time.monotonic() < deadline and not self._stop.is_set():
                time.sleep(_CHECK_EVERY_S)
            self._start_query(flow)

    def _are_many_starting(self) -> bool:
        return sum(flow.is_starting for flow in self.flows) >= _STARTS_AT_ONCE

    def _prepare(self, output: Output, frame: DataFrame) -> None:
        if isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(output.name)
        elif isinstance(output, Table) and not self.spark.catalog.tableExists(output.name):
            path = self.spec.storage_uri("tables", output.name)
            schema = output.schema if output.schema is not None else frame.schema
            if self.spec.is_local:
                Path(path).mkdir(parents=True, exist_ok=True)
            self.spark.catalog.createTable(output.name, path=path, source=output.format or "parquet", schema=schema)

    def _check_plans(self) -> None:
        """Refuses checkpoints that do not fit their flows, and flows that lost their checkpoint by a rename."""
        if not self.spec.is_local:
            return
        shapes = {flow.name: shape_of(plan_text(flow.resolved.frame), flow.sink) for flow in self.flows}
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
        flow.query = started_query(flow, self.spec, self.checkpoints, self.trigger_interval, once=self.once)
        flow.started_at, flow.start_again_at, flow.seen_batch = time.monotonic(), None, -1
        flow.caught_up_at = flow.started_at
        flow.progress.state = RUNNING
        self._publish(flow)

    def supervise(self) -> None:
        """Watches the flows until all have ended (`once`) or `stop` was called. Then stops the running ones. Raises
        PipelineError with the failures of an isolated run at its end."""
        make_active(self.spark)
        try:
            while not self._stop.is_set():
                for flow in self.flows:
                    self._check_flow(flow)
                    self._beat(flow)
                if self._control is not None:
                    self._control.act()
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
            is_due = flow.start_again_at is not None and time.monotonic() >= flow.start_again_at
            if is_due and not self._are_many_starting():
                try:
                    self._start_query(flow)
                except PipelineError as refusal:
                    self._failed(flow, refusal)
            return
        active = flow.query.isActive
        self._take_progress(flow)
        if active and flow.pause_after is not None and self._may_stop(flow, flow.query):
            self._stop_query(flow)
            flow.is_paused, flow.pause_after = True, None
            return
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

    # What commands do with flows (`flow_control.ControlledRun`).

    def progress_of(self, flow: str) -> FlowProgress | None:
        return next((one.progress for one in self.flows if one.name == flow), None)

    def _named(self, flow: str) -> RunningFlow:
        return next(one for one in self.flows if one.name == flow)

    def pause_flow(self, flow: str) -> None:
        """Stops the flow after its running batch."""
        one = self._named(flow)
        if one.query is not None:
            one.pause_after = finished_batch(one.query), time.monotonic() + _GRACE_S
        elif not one.is_paused:
            one.is_paused, one.start_again_at, one.progress.state = True, None, STOPPED

    def is_paused(self, flow: str) -> bool:
        return self._named(flow).is_paused

    def resume_flow(self, flow: str) -> None:
        one = self._named(flow)
        if one.query is not None:
            raise PipelineError(f"flow {flow!r} runs already")
        self._start_query(one)
        one.is_paused, one.pause_s, one.progress.last_error = False, FIRST_PAUSE_S, None
        self.failures = [text for text in self.failures if not text.startswith(f"flow {flow!r} failed")]

    def publish_flow(self, flow: str) -> None:
        self._publish(self._named(flow))

    def replay_flow(self, flow: str, begin: str, end: str) -> int:
        from headrace.pipelines.flows.replay import replay

        # In a thread of its own, which has no active session yet.
        make_active(self.spark)
        return replay(
            self.spec, self.spark, flow=flow, begin=begin, end=end, bootstrap=None, report=self.report,
            graph=self.graph,
        )  # fmt: skip

    def _may_stop(self, flow: RunningFlow, query: StreamingQuery) -> bool:
        """Between two batches, or after the patience of a stop: a cancelled batch runs again at the next start."""
        assert flow.pause_after is not None
        batch, deadline = flow.pause_after
        is_between = not query.status["isTriggerActive"] or finished_batch(query) != batch
        return is_between or flow.is_realtime or time.monotonic() >= deadline

    def _beat(self, flow: RunningFlow) -> None:
        """Reports a flow without a new batch once per heartbeat, so that readers know that its driver lives."""
        is_alive = flow.query is not None or flow.start_again_at is not None or self._control is not None
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
        if self._stop.is_set():
            # SIGTERM may have reached Spark's workers too. A batch that they left runs again at the next start.
            flow.progress.state = STOPPED
            self._publish(flow)
            return
        reason = failure_reason(error)
        flow.progress.last_error = reason
        # A flow that never finished a batch has a permanent error. A run with `once` does not restart flows.
        most = _MOST_RESTARTS_IN_ONCE if self.once else _MOST_RESTARTS
        text = f"{reason} {error}"
        is_of_machine = any(words in text for words in _MACHINE_FAILURES) and flow.progress.restarts < most
        never_ran = flow.finished_batches == 0
        stops_alone = self.once or (self.isolated and never_ran) or is_permanent(str(error))
        if (stops_alone or never_ran) and not is_of_machine:
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
        if is_of_machine:
            # All flows start together, each with a Python process. If that is too much for the machine, they start one
            # after the other.
            waiting = [one.start_again_at for one in self.flows if one is not flow and one.start_again_at is not None]
            flow.start_again_at = max([flow.start_again_at, *(at + _BETWEEN_SLOW_STARTS_S for at in waiting)])
        self.report(f"flow {flow.name!r} failed and starts again in {flow.pause_s:g} s: {reason}")
        flow.pause_s = min(flow.pause_s * 2, _LONGEST_PAUSE_S)
        self._publish(flow)

    def _refresh_views(self, every_s: float) -> None:
        if not self.views or time.monotonic() - self._views_refreshed_at < every_s:
            return
        tables = [flow.resolved.target.name for flow in self.flows if isinstance(flow.resolved.target, StreamingTable)]
        write_views(self.spark, self.spec, self.views, tables)
        self._views_refreshed_at = time.monotonic()

    def _let_batches_finish(self) -> None:
        """Waits for a limited time until every query is between two batches, because a cancelled batch runs again. Does
        not wait in real-time mode, where a batch lasts from checkpoint to checkpoint."""
        deadline = time.monotonic() + _GRACE_S
        waiting = {
            flow.name: (flow.query, finished_batch(flow.query))
            for flow in self.flows
            if flow.query is not None and not flow.is_realtime
        }
        while waiting and time.monotonic() < deadline:
            for name, (query, batch) in list(waiting.items()):
                if not query.isActive or not query.status["isTriggerActive"] or finished_batch(query) != batch:
                    del waiting[name]
            if waiting:
                time.sleep(_CHECK_EVERY_S)

    def _publish(self, flow: RunningFlow) -> None:
        if self._writer is not None:
            if self._control is not None:
                self._control.mark(flow.progress)
            flow.attach_plan(time.monotonic())
            self._writer.publish(flow.progress)

    def _stop_query(self, flow: RunningFlow) -> None:
        assert flow.query is not None
        flow.query.stop()
        self._take_progress(flow)
        flow.query = None
        if flow.progress.state == RUNNING:
            flow.progress.state = STOPPED
            self._publish(flow)

    def _shut_down(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
            for flow in self.flows:
                flow.progress.run = ""
                if flow.query is None:
                    self._publish(flow)
        self._let_batches_finish()
        for flow in self.flows:
            if flow.query is not None:
                self._stop_query(flow)
        if self._lock is not None:
            self._lock.release()
        if self._writer is not None:
            self._writer.close()
