"""Carries out commands for the flows of a run: stop, start, reset, replay (`client.blocking.flow_commands`).

A thread reads the commands, so that a broker that does not answer never delays the supervision of flows. The thread of
the run takes them between two looks at its flows (`FlowControl.act`). It looks again at a command that takes longer,
until the batch or the replay has ended. Each report of the flow has the last command with its state.

A flow is stopped between two batches. A flow that a person stopped stays stopped until a person starts it or the
pipeline starts again. A reset needs a stopped flow, and moves its checkpoint as `headrace pipeline reset` does.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.flow_commands import REPLAY, RESET, START, STOP, CommandReader, FlowCommand
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.progress import CommandState, FlowProgress
from headrace.pipelines.flows.reset import check_place, move_flow
from headrace.pipelines.flows.spec import PipelineSpec

# `headrace.control: "false"` in the configuration of a pipeline: it takes no commands.
CONTROL: Final = "headrace.control"
_LOOK_EVERY_S: Final = 0.5
_AGAIN_AFTER_S: Final = 5.0
# Without the right to the topic each attempt is a line in the brokers' audit log.
_LONGEST_PAUSE_S: Final = 300.0


class CommandListener:
    """Reads commands in a thread of its own. `listens` is false while the brokers cannot be asked."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None) -> None:
        self.run = uuid.uuid4().hex
        self.listens = False
        self._bootstrap = bootstrap
        self._security = security
        self._commands: SimpleQueue[FlowCommand] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="flow-commands", daemon=True)
        self._thread.start()

    def take(self) -> list[FlowCommand]:
        found = []
        while True:
            try:
                found.append(self._commands.get_nowait())
            except Empty:
                return found

    def _read(self) -> None:
        pause_s = _AGAIN_AFTER_S
        while not self._stop.is_set():
            try:
                with BlockingClient(
                    self._bootstrap, client_id="headrace-pipeline", timeout_s=10, patience_s=5, security=self._security
                ) as client:
                    reader = CommandReader(client, self.run)
                    self.listens, pause_s = True, _AGAIN_AFTER_S
                    while not self._stop.wait(_LOOK_EVERY_S):
                        for command in reader.read():
                            self._commands.put(command)
            except (Fault, OSError):
                # Without the right to the topic, or without brokers, the flows run as before.
                self.listens = False
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(_AGAIN_AFTER_S)


class ControlledRun(Protocol):
    """What commands need of a run. The thread of the run calls all of it."""

    def progress_of(self, flow: str) -> FlowProgress | None: ...
    def pause_flow(self, flow: str) -> None: ...
    def is_paused(self, flow: str) -> bool: ...
    def resume_flow(self, flow: str) -> None: ...
    def publish_flow(self, flow: str) -> None: ...
    def replay_flow(self, flow: str, begin: str, end: str) -> int:
        """Returns the number of rows. Runs in a thread of its own. Raises PipelineError."""
        ...


@dataclass
class FlowControl:
    spec: PipelineSpec
    run: ControlledRun
    listener: CommandListener
    report: Callable[[str], None]
    _open: dict[str, FlowCommand] = field(default_factory=dict)
    _replays: dict[str, Future[int]] = field(default_factory=dict)

    def act(self) -> None:
        """Takes new commands and looks at the open ones."""
        for command in self.listener.take():
            flow = command.flow.removeprefix(f"{self.spec.name}.")
            if self.run.progress_of(flow) is None:
                continue
            if flow in self._open:
                self._end(flow, command, "refused", f"{self._open[flow].action} has not ended yet")
                continue
            self.report(f"flow {flow!r}: {command.action}, as {command.by or 'an unnamed person'} asked")
            self._open[flow] = command
            self._note(flow, command, "begun", "")
            self._begin(flow, command)
        for flow, command in list(self._open.items()):
            self._look(flow, command)

    def mark(self, progress: FlowProgress) -> None:
        """Before a report: whether commands reach this run."""
        progress.run = self.listener.run if self.listener.listens else ""

    def _begin(self, flow: str, command: FlowCommand) -> None:
        try:
            if command.action == STOP:
                self.run.pause_flow(flow)
            elif command.action == START:
                self.run.resume_flow(flow)
                self._end(flow, command, "done", "")
            elif command.action == RESET:
                self._reset(flow, command)
            elif command.action == REPLAY:
                self._replays[flow] = self._replay(flow, command)
        except (PipelineError, OptionError, Fault, OSError) as error:
            self._end(flow, command, "failed", str(error))

    def _look(self, flow: str, command: FlowCommand) -> None:
        if command.action == STOP and self.run.is_paused(flow):
            self._end(flow, command, "done", "")
        elif command.action == REPLAY and (future := self._replays.get(flow)) is not None and future.done():
            del self._replays[flow]
            error = future.exception()
            if error is not None:
                self._end(flow, command, "failed", str(error))
            else:
                self._end(flow, command, "done", f"{counted(future.result(), 'row')} read again")

    def _reset(self, flow: str, command: FlowCommand) -> None:
        if not self.run.is_paused(flow):
            raise PipelineError(f"flow {flow!r} runs: stop it before you reset it")
        check_place(command.to)
        moved = move_flow(self.spec, flow, command.to)
        progress = self.run.progress_of(flow)
        assert progress is not None
        if moved is None:
            progress.end_offsets, progress.lag = {}, None
        else:
            offsets: dict[str, dict[str, int]] = {}
            for source in moved:
                offsets |= {topic: parts for topic, parts in source.items() if isinstance(parts, dict)}
            progress.end_offsets, progress.lag = offsets or progress.end_offsets, None
        self._end(flow, command, "done", "it starts at its own startingOffsets" if moved is None else "")

    def _replay(self, flow: str, command: FlowCommand) -> Future[int]:
        for place in (command.begin, command.to):
            check_place(place)
        future: Future[int] = Future()

        def work() -> None:
            try:
                future.set_result(self.run.replay_flow(flow, command.begin, command.to))
            except BaseException as error:  # boundary of the thread: the command fails, the run goes on
                future.set_exception(error)

        threading.Thread(target=work, name=f"replay-{flow}", daemon=True).start()
        return future

    def _note(self, flow: str, command: FlowCommand, state: str, message: str) -> None:
        progress = self.run.progress_of(flow)
        if progress is not None:
            progress.command = CommandState(
                id=command.id, action=command.action, by=command.by, state=state, message=message,
                at_ms=int(time.time() * 1000),
            )  # fmt: skip
            self.run.publish_flow(flow)

    def _end(self, flow: str, command: FlowCommand, state: str, message: str) -> None:
        if self._open.get(flow) is command:
            del self._open[flow]
        if state != "done":
            self.report(f"flow {flow!r}: {command.action} {state}: {message}")
        self._note(flow, command, state, message)

    def close(self) -> None:
        self.listener.close()


def control_of(
    spec: PipelineSpec, run: ControlledRun, security: ClientSecurity | None, report: Callable[[str], None]
) -> FlowControl | None:
    """None if the pipeline has no brokers or its configuration turns commands off."""
    if not spec.bootstrap or spec.configuration.get(CONTROL, "true").lower() == "false":
        return None
    return FlowControl(spec, run, CommandListener(spec.bootstrap, security), report)
