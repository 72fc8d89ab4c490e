"""One connector file that runs in a thread of its own: a task, in the words of Kafka Connect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from headrace.kernel.errors import Fault
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import failure_reason

UNASSIGNED: Final = "UNASSIGNED"
RUNNING: Final = "RUNNING"
FAILED: Final = "FAILED"
_STOP_S: Final = 60.0


class Run(Protocol):
    def start(self) -> None: ...
    def supervise(self) -> None: ...
    def stop(self) -> None: ...


Runner = Callable[[ConnectorSpec], Run]


class ConnectorTask:
    """Starts at once. Its thread owns the run; `stop` may be called by any thread."""

    def __init__(self, spec: ConnectorSpec, runner: Runner) -> None:
        self.spec, self._runner = spec, runner
        self.state = UNASSIGNED
        self.trace: str | None = None
        self._run: Run | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"connector-{spec.name}", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        try:
            self._run = self._runner(self.spec)
            self._run.start()
            self.state = RUNNING
            if self._stopping.is_set():
                self._run.stop()
            self._run.supervise()
        except (PipelineError, Fault, OSError) as error:
            self._failed(str(error))
        except Exception as error:
            # Boundary to Spark and to plugins, which may raise anything: the task fails, the worker goes on.
            self._failed(failure_reason(error))

    def _failed(self, reason: str) -> None:
        self.trace, self.state = reason, FAILED

    def ask_to_stop(self) -> None:
        self._stopping.set()
        if self._run is not None:
            self._run.stop()

    def stop(self) -> None:
        """Waits until the current batch is written."""
        self.ask_to_stop()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            raise PipelineError(f"connector {self.spec.name!r} has not stopped within {_STOP_S:g} s")
