"""Runs a connector without Spark: its rows, and its dead letters if it decodes values.

    run = LiteRun(load_connector(file), report=print)
    run.start()          # checks the connector, takes the lock of its storage
    run.supervise()      # until stop(), or with once=True until the existing rows are read

Each flow has its own offsets, as in Spark's runner. A flow that failed after its first batch starts again after a pause
that doubles up to a minute. A flow that fails in its first batch, or with `once`, ends the run. One thread owns the
run; a signal handler may call `stop`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.kernel.errors import Fault
from headrace.pipelines.brokers import kafka_settings, security_of
from headrace.pipelines.connectors.connector import SOURCES, STRICTNESS, TARGETS, ConnectorSpec
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.failure_reasons import raised_reason
from headrace.pipelines.flows.flow_control import FlowControl, control_of
from headrace.pipelines.flows.progress import (
    FAILED,
    RESTARTING,
    RUNNING,
    STOPPED,
    FlowProgress,
    ProgressWriter,
    flow_places,
)
from headrace.pipelines.flows.run_lock import CHECKPOINTS, RunLock
from headrace.pipelines.lite.batch_log import BatchLog
from headrace.pipelines.lite.flow import LiteFlow
from headrace.pipelines.lite.json_values import JsonValues, letter, letter_columns
from headrace.pipelines.lite.rows import ERROR, LiteRow, LiteSource, LiteTarget, good_rows, not_in_lite
from headrace.pipelines.lite.selection import selection
from headrace.pipelines.lite.topic_rows import TopicRows, plain_columns, plain_row, source_options
from headrace.pipelines.lite.topic_target import TopicTarget, record_maker
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.plugins.columns import Column

_IDLE_S: Final = 0.1
# A question to a database costs it a query, so it is asked less often.
_TABLE_IDLE_S: Final = 1.0
_INTERVAL: Final = re.compile(r"(\d+)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_FIRST_PAUSE_S: Final = 1.0
_LETTERS: Final = "-dead-letters"
_LONGEST_PAUSE_S: Final = 60.0
_SETTINGS: Final = ("name", "pattern", "schema", "format", "startingOffsets", "decode", "options")


@dataclass
class _Running:
    flow: LiteFlow
    progress: FlowProgress
    open: Callable[[], LiteFlow]
    pause_s: float = _FIRST_PAUSE_S
    again_at: float | None = None
    batches: int = 0
    ended: bool = False
    # A person stopped the flow: the run goes on without it.
    is_paused: bool = False


@dataclass
class LiteRun:
    spec: ConnectorSpec
    report: Callable[[str], None] = print
    once: bool = False
    # Whether people may stop, start and reset flows while the run lasts (see `flow_control`).
    is_controlled: bool = False
    _flows: list[_Running] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: RunLock | None = None
    _idle_s: float = _IDLE_S
    _writer: ProgressWriter | None = None
    _control: FlowControl | None = None

    @property
    def names(self) -> list[str]:
        return [one.flow.name for one in self._flows]

    def start(self) -> None:
        spec = self.spec.pipeline()
        if not spec.is_local:
            raise PipelineError(f"storage {spec.storage!r} is not on this machine: --lite needs a file path")
        if name := next((name for name in spec.configuration if name == "headrace.trigger.realtime"), None):
            raise not_in_lite(self.spec.file.name, f"it has {name}")
        self._idle_s = idle_seconds(self.spec)
        self._lock = RunLock(spec)
        try:
            for make in flow_makers(self.spec):
                flow = make()
                self._flows.append(_Running(flow, self._progress(spec.name, flow.name), make))
                flow.prepare()
                flow.stop_at = flow.source.end() if self.once else None
            if spec.bootstrap:
                security = security_of(kafka_settings(spec.configuration))
                self._writer = ProgressWriter(spec.bootstrap, self.report, security)
                if self.is_controlled:
                    self._control = control_of(spec, self, security, self.report)
                for one in self._flows:
                    self._publish(one)
        except BaseException:
            # For every exception, interrupts included: release the lock.
            self._close()
            raise

    def _progress(self, pipeline: str, flow: str) -> FlowProgress:
        places = flow_places(self.spec.source.label(), self.spec.target.label())
        progress = FlowProgress(pipeline, flow, origins=places["origins"], trigger_ms=int(self._idle_s * 1000))
        progress.target = None if flow.endswith(_LETTERS) else places["target"]
        return progress

    def stop(self) -> None:
        self._stop.set()

    # What commands do with flows (`flow_control.ControlledRun`).

    def _named(self, flow: str) -> _Running | None:
        return next((one for one in self._flows if one.flow.name == flow), None)

    def progress_of(self, flow: str) -> FlowProgress | None:
        one = self._named(flow)
        return None if one is None else one.progress

    def pause_flow(self, flow: str) -> None:
        """Between two batches, because the thread of the run calls it."""
        one = self._named(flow)
        if one is not None and not one.is_paused:
            one.flow.close()
            one.is_paused, one.again_at, one.progress.state = True, None, STOPPED

    def is_paused(self, flow: str) -> bool:
        one = self._named(flow)
        return one is not None and one.is_paused

    def resume_flow(self, flow: str) -> None:
        one = self._named(flow)
        if one is None or not one.is_paused:
            raise PipelineError(f"flow {flow!r} runs already")
        one.flow = one.open()
        one.flow.prepare()
        one.is_paused, one.progress.state, one.progress.last_error = False, RUNNING, None

    def publish_flow(self, flow: str) -> None:
        one = self._named(flow)
        if one is not None:
            self._publish(one)

    def replay_flow(self, flow: str, begin: str, end: str) -> int:
        raise PipelineError(
            f"flow {flow!r} runs without Spark, which a replay needs: stop it, and use 'headrace pipeline replay'"
        )

    def supervise(self) -> None:
        try:
            while not self._stop.is_set() and not all(one.ended for one in self._flows):
                if self._control is not None:
                    self._control.act()
                busy = [self._step(one) for one in self._flows if not one.ended]
                if not any(busy):
                    self._stop.wait(self._idle_s)
            self._end_control()
            for one in self._flows:
                one.progress.state, one.progress.run = STOPPED, ""
                self._publish(one)
        finally:
            self._close()

    def _step(self, one: _Running) -> bool:
        if one.is_paused:
            self._beat(one)
            return False
        if one.again_at is not None and time.monotonic() < one.again_at:
            return False
        try:
            if one.again_at is not None:
                # Fails for as long as the source or the target is away.
                one.flow = one.open()
                one.again_at, one.progress.state = None, RUNNING
            before = one.flow.read_rows, one.flow.written_rows, time.monotonic()
            is_busy = one.flow.step()
        except (PipelineError, Fault, OSError) as error:
            self._failed(one, str(error))
            return False
        except Exception as error:
            # Boundary to databases and plugins, which raise their own errors: the user must not see a traceback.
            self._failed(one, raised_reason(error))
            return False
        if is_busy:
            one.batches += 1
            one.pause_s = _FIRST_PAUSE_S
            self._note(one, *before)
        elif self.once:
            one.ended = True
        else:
            self._beat(one)
        return is_busy

    def _beat(self, one: _Running) -> None:
        if time.time() * 1000 - one.progress.at_ms >= one.progress.heartbeat_ms:
            self._publish(one)

    def _note(self, one: _Running, read: int, written: int, began: float) -> None:
        flow, progress = one.flow, one.progress
        seconds = max(time.monotonic() - began, 1e-6)
        progress.batch_id, progress.batch_ms = flow.batch, int(seconds * 1000)
        progress.input_rows = flow.read_rows - read
        progress.input_rows_per_second = progress.processed_rows_per_second = round(progress.input_rows / seconds, 1)
        progress.read_rows += progress.input_rows
        progress.written_rows += flow.written_rows - written
        if flow.name.endswith(_LETTERS):
            progress.dead_letters = progress.written_rows
        progress.lag = 0
        if isinstance(flow.source, TopicRows) and flow.end is not None:
            progress.end_offsets, progress.lag = flow.end, flow.source.lag(flow.end)
            if self._writer is not None:
                self._writer.commit(progress)
        self._publish(one)

    def _publish(self, one: _Running) -> None:
        if self._writer is not None:
            if self._control is not None:
                self._control.mark(one.progress)
            self._writer.publish(one.progress)

    def _failed(self, one: _Running, reason: str) -> None:
        one.progress.last_error = reason
        one.flow.close()
        if self.once or one.batches == 0:
            one.progress.state = FAILED
            self._publish(one)
            raise PipelineError(f"flow {one.flow.name!r} failed: {reason}")
        one.progress.state, one.progress.restarts = RESTARTING, one.progress.restarts + 1
        one.again_at = time.monotonic() + one.pause_s
        self.report(f"flow {one.flow.name!r} failed and starts again in {one.pause_s:g} s: {reason}")
        one.pause_s = min(one.pause_s * 2, _LONGEST_PAUSE_S)
        self._publish(one)

    def totals(self) -> list[dict[str, object]]:
        """Rows of each flow since the start, as Spark's runner counts them."""
        return [
            {
                "flow": one.flow.name,
                "read": one.progress.read_rows,
                "written": 0 if one.progress.dead_letters else one.progress.written_rows,
                "dropped": 0,
                "dead letters": one.progress.dead_letters,
            }
            for one in self._flows
        ]

    def _end_control(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def _close(self) -> None:
        self._end_control()
        for one in self._flows:
            one.flow.close()
        if self._lock is not None:
            self._lock.release()
        if self._writer is not None:
            self._writer.close()


def idle_seconds(spec: ConnectorSpec) -> float:
    """The pause when there are no new rows: the trigger interval of the connector, as Spark reads it."""
    if spec.trigger is None:
        return _TABLE_IDLE_S if spec.source.kind == "jdbc" else _IDLE_S
    match = _INTERVAL.fullmatch(spec.trigger.strip().lower())
    if match is None:
        raise not_in_lite(spec.file.name, f"its trigger is {spec.trigger!r}")
    unit = "ms" if match[2].startswith(("ms", "mil")) else match[2][0]
    return int(match[1]) * _UNITS[unit]


def flow_makers(spec: ConnectorSpec) -> list[Callable[[], LiteFlow]]:
    """Functions that open the flows of the connector, the rows first."""
    if spec.rules:
        raise not_in_lite(spec.file.name, 'it has "expect"')
    made: list[Callable[[], LiteFlow]] = [lambda: _rows_flow(spec)]
    if spec.source.kind == "topic" and "schema" in spec.source.settings:
        made.append(lambda: _letters_flow(spec))
    return made


def _rows_flow(spec: ConnectorSpec) -> LiteFlow:
    source, good = _source(spec)
    chosen = selection(spec.select, source.columns, spec.file.name)

    def change(rows: Iterator[LiteRow]) -> Iterator[LiteRow]:
        return chosen.change(good(rows))

    target = _target(spec, chosen.columns)
    log = BatchLog(spec.checkpoint)
    return LiteFlow(spec.name, source, change, chosen.columns, target, log, has_sparks_slots=spec.source.kind != "file")


def _letters_flow(spec: ConnectorSpec) -> LiteFlow:
    values = JsonValues.of(spec.source)
    source = TopicRows(source_options(spec, spec.source), values.columns, values.row)
    name = f"{spec.name}{_LETTERS}"
    target = TopicTarget(SinkOptions.parse(spec.brokers), letter)
    log = BatchLog(spec.pipeline().storage_path / CHECKPOINTS / name)
    columns = tuple(letter_columns())
    return LiteFlow(name, source, lambda rows: (row for row in rows if row.get(ERROR)), columns, target, log)


def _source(spec: ConnectorSpec) -> tuple[LiteSource, Callable[[Iterator[LiteRow]], Iterator[LiteRow]]]:
    end = spec.source
    match end.kind:
        case "topic":
            end.only(*_SETTINGS, *STRICTNESS, "writer_schema")
            options = source_options(spec, end)
            if "schema" not in end.settings:
                return TopicRows(options, plain_columns(), plain_row), lambda rows: rows
            values = JsonValues.of(end)
            return TopicRows(options, values.columns, values.row), good_rows
        case "file":
            from headrace.pipelines.lite.file_rows import FileRows

            return FileRows(end, spec.file.parent.resolve(), spec.checkpoint), lambda rows: rows
        case "jdbc":
            from headrace.pipelines.lite.table_rows import TableRows

            return TableRows(end), lambda rows: rows
    if end.kind in SOURCES:
        raise not_in_lite(end.place, f"it reads {end.kind}")
    from headrace.pipelines.lite.journal_rows import JournalRows

    return JournalRows(end, spec.checkpoint / "journal"), lambda rows: rows


def _target(spec: ConnectorSpec, columns: tuple[Column, ...]) -> LiteTarget:
    end = spec.target
    if end.kind == "topic":
        end.only("name", "key", "value", "encode", "schema", "subjectStrategy", "options")
        if not spec.bootstrap:
            raise OptionError(f'{end.place}: say which brokers: "bootstrap" in the file, or --bootstrap')
        options = SinkOptions.parse({**spec.brokers, "topic": end.text("name"), **end.options()})
        if not options.exactly_once:
            raise not_in_lite(end.place, "its mode is at-least-once")
        return TopicTarget(options, record_maker(end, columns))
    from headrace.pipelines.lite.other_targets import ConsoleTarget, PluginTarget, TableTarget

    if end.kind == "jdbc":
        if "scd" in end.settings:
            raise not_in_lite(end.place, "it keeps its table by changes (scd)")
        return TableTarget(end)
    if end.kind == "console":
        return ConsoleTarget(end)
    if end.kind in TARGETS:
        raise not_in_lite(end.place, f"it writes {end.kind}")
    return PluginTarget(end, spec.checkpoint)


def finish_open_batches(spec: ConnectorSpec, report: Callable[[str], None]) -> None:
    """Finishes batches that this runner began and did not finish, before Spark continues the connector."""
    pipeline = spec.pipeline()
    # This runner refuses rules, so it began no batch of a connector that has some.
    if not pipeline.is_local or spec.rules:
        return
    for make, name in zip(flow_makers(spec), (spec.name, f"{spec.name}{_LETTERS}"), strict=False):
        log = BatchLog(pipeline.storage_path / CHECKPOINTS / name)
        if log.was_left():
            report(f"flow {name!r}: finishes batch {log.last()}, which the runner without Spark began")
            flow = make()
            try:
                flow.step()
            finally:
                flow.close()
