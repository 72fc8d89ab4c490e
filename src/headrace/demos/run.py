"""Runs one demo: a broker, the generator, the pipeline on Spark, a live picture, and a check without Spark.

On a terminal a demo runs until Ctrl-C. Without a terminal it ends by itself: exit code 0 if Spark's result equals the
separate computation, 1 if not.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headrace.client.blocking.client import BlockingClient
from headrace.datagen.generator import Generator
from headrace.datagen.sending import NotSent, Sender, create_topics
from headrace.demos.catalogue import Demo
from headrace.demos.processes import embedded_broker, web_console
from headrace.demos.topics import Contents
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.runner import PipelineRun

RECORDS: Final = 4000
"""So many records are generated without a terminal."""
_LOOK_EVERY_S: Final = 0.25


@dataclass
class DemoRun:
    demo: Demo
    bootstrap: str
    storage: Path
    console: Console
    spark: SparkSession | None = None
    patience_s: float = 180.0

    def prepare(self) -> None:
        self.plan, self.check = self.demo.plan, self.demo.check
        self._settings = {"bootstrap.servers": self.bootstrap}
        create_topics(self.plan, self._settings)
        self.client = BlockingClient(self.bootstrap, client_id=f"headrace-demo-{self.demo.name}")
        for topic, configs in self.check.OUTPUTS.items():
            self.client.create_topic(topic, 1, replication_factor=1, configs=configs)
        self.inputs = Contents(self.client, [topic.name for topic in self.plan.topics])
        self.outputs = Contents(self.client, self.check.OUTPUTS)
        self.generator = Generator(self.plan, start_ms=self.plan.start_ms or int(time.time() * 1000))
        self.sender = Sender(self._settings)

    @contextmanager
    def pipeline(self) -> Iterator[PipelineRun]:
        """The pipeline runs in this process until the block ends. Raises its fault at the end of the block."""
        from headrace.pipelines.flows.runner import PipelineRun
        from headrace.pipelines.session import spark_session

        spec = load_spec(self.demo.directory).with_settings({BOOTSTRAP: self.bootstrap}, storage=str(self.storage))
        spark = self.spark or spark_session(self.demo.name)
        run = PipelineRun(spec, spark, report=lambda text: self.console.print(text, style="yellow"))
        self.faults: list[BaseException] = []

        def supervise() -> None:
            try:
                run.supervise()
            except BaseException as error:
                # Boundary of the thread: `_raise_fault` raises the error in the main thread.
                self.faults.append(error)

        thread = threading.Thread(target=supervise, name=f"pipeline {self.demo.name}", daemon=True)
        try:
            run.start()
            thread.start()
            yield run
        finally:
            run.stop()
            if thread.is_alive():
                thread.join(60)
            if self.spark is None:
                spark.stop()

    def _raise_fault(self) -> None:
        if self.faults:
            raise self.faults[0]

    def run_once(self, records: int = RECORDS) -> bool:
        """Sends records as fast as possible, waits for the pipeline, and compares its result."""
        self.sender = Sender(self._settings, paced=False)
        sent = self.sender.run(self.generator, count=records)
        self.inputs.read_new()
        expected = self.check.expected(self.inputs)
        self.console.print(f"{counted(sent.total, 'record')} sent to {', '.join(sorted(sent.records))}")
        with self.pipeline():
            deadline = time.monotonic() + self.patience_s
            while True:
                self._raise_fault()
                self.outputs.read_new()
                found = self.check.found(self.outputs)
                if found == expected or time.monotonic() > deadline:
                    break
                time.sleep(_LOOK_EVERY_S)
        self.console.print(self.check.picture(found, 10))
        if found == expected:
            self.console.print(f"Spark's {counted(len(found), 'result')} equal a computation without Spark.")
            return True
        wrong = {key: (found.get(key), value) for key, value in expected.items() if found.get(key) != value}
        extra = [key for key in found if key not in expected]
        self.console.print(
            f"the results differ (Spark's, expected): {dict(list(wrong.items())[:5])} {extra[:5]}", style="red"
        )
        return False

    def show_until_stopped(self, seconds: float | None) -> None:
        """Sends at the planned rate and shows the result as it changes."""
        stopped = threading.Event()
        sending = threading.Thread(
            target=self._send, args=(seconds, stopped), name=f"generator {self.demo.name}", daemon=True
        )
        ends_at = None if seconds is None else time.monotonic() + seconds
        with self.pipeline() as run, Live(console=self.console, refresh_per_second=4) as live:
            sending.start()
            try:
                while ends_at is None or time.monotonic() < ends_at:
                    self._raise_fault()
                    self.outputs.read_new()
                    live.update(self._screen(run))
                    time.sleep(_LOOK_EVERY_S)
            except KeyboardInterrupt:
                pass
            finally:
                stopped.set()
                sending.join(30)

    def _send(self, seconds: float | None, stopped: threading.Event) -> None:
        try:
            self.sender.run(self.generator, seconds=seconds, stop=stopped.is_set)
        except NotSent as fault:
            self.faults.append(PipelineError(str(fault)))

    def _screen(self, run: PipelineRun) -> Group:
        sent = self.sender.sent
        lags = [flow.progress.lag for flow in run.flows]
        lag = "–" if any(each is None for each in lags) else f"{sum(each or 0 for each in lags):,}"
        facts = Text.from_markup(
            f"[b]{self.demo.name}[/b]  broker [b]{self.bootstrap}[/b]  sent [b]{sent.total:,}[/b]  lag [b]{lag}[/b]  "
            f"Ctrl-C stops"
        )
        rows = max(5, min(20, self.console.height - 8))
        return Group(facts, self.check.picture(self.check.found(self.outputs), rows))


def run_demo(demo: Demo, *, data: Path | None, bootstrap: str | None, seconds: float | None) -> int:
    """Returns the exit code. With `bootstrap` it uses a running cluster instead of starting a broker."""
    console = Console(soft_wrap=True)
    on_terminal = sys.stdout.isatty()
    temporary = None
    if data is None:
        temporary = None if on_terminal else Path(tempfile.mkdtemp(prefix=f"headrace-demo-{demo.name}-"))
        data = temporary or Path("data") / "demos" / demo.name
    try:
        if bootstrap is not None:
            return _run(DemoRun(demo, bootstrap, data.resolve() / "pipeline", console), on_terminal, seconds)
        console.print("Starting a broker …")
        with embedded_broker(data.resolve() / "broker") as address:
            console.print(f"The broker serves {address}. Starting Spark …")
            with web_console(address, data.resolve() / "console.log") as url:
                if url is not None:
                    console.print(f"The web console shows topics, groups and the pipeline: {url}")
                return _run(DemoRun(demo, address, data.resolve() / "pipeline", console), on_terminal, seconds)
    except (PipelineError, Fault, NotSent) as error:
        console.print(f"headrace: {error}", style="red")
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _run(run: DemoRun, on_terminal: bool, seconds: float | None) -> int:
    run.prepare()
    try:
        if on_terminal:
            run.show_until_stopped(seconds)
            return 0
        return 0 if run.run_once() else 1
    finally:
        run.client.close()
