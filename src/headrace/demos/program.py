"""`headrace demo NAME` as a program: where the files are, which brokers run, what goes wrong in one sentence."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from headrace.datagen.sending import NotSent
from headrace.demos.catalogue import Demo, without_java
from headrace.demos.errors import DemoFailed
from headrace.demos.processes import DevelopmentCluster, running_brokers, web_console
from headrace.demos.run import DemoRun
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.spark.java import JavaMissing, find_java

_STORY_S: Final = 30


@dataclass(frozen=True)
class Wishes:
    """The options of the command."""

    data: Path | None = None
    bootstrap: str | None = None
    seconds: float | None = None
    brokers: int | None = None
    port: int | None = None
    storage: str | None = None


def run_demo(demo: Demo, wishes: Wishes) -> int:
    """Returns the exit code."""
    console = Console(soft_wrap=True)
    if wishes.data is not None:
        return _exit_code(demo, wishes, wishes.data.resolve(), console)
    data = Path(tempfile.mkdtemp(prefix=f"headrace-demo-{demo.name}-"))
    is_kept = False
    try:
        code = _exit_code(demo, wishes, data, console)
        # The reason may be in the logs. Without any, for instance if a port is taken, there is nothing to keep.
        is_kept = code != 0 and any(data.rglob("*.log"))
        if is_kept:
            console.print(f"The files of this run are kept in {data}", highlight=False)
        return code
    finally:
        if not is_kept:
            shutil.rmtree(data, ignore_errors=True)


def _exit_code(demo: Demo, wishes: Wishes, data: Path, console: Console) -> int:
    on_terminal = sys.stdout.isatty()
    try:
        with ExitStack() as stack:
            run = _prepared(demo, wishes, data, console, stack)
            if on_terminal:
                # A story that a person watches: half a minute of the planned rate.
                run.records = int(_STORY_S * run.plan.arrivals.rate)
                return 0 if run.show_until_stopped(wishes.seconds) else 1
            return 0 if run.run_once() else 1
    except JavaMissing as error:
        console.print(f"headrace: {error}\n{without_java()}", style="red", highlight=False, markup=False)
        return 1
    except (PipelineError, Fault, NotSent, DemoFailed) as error:
        console.print(f"headrace: {error}", style="red", highlight=False, markup=False)
        return 1
    except KeyboardInterrupt:
        return 0


def _prepared(demo: Demo, wishes: Wishes, data: Path, console: Console, stack: ExitStack) -> DemoRun:
    if demo.uses_spark:
        find_java()  # before brokers start: without Java there is nothing to wait for
    data.mkdir(parents=True, exist_ok=True)
    if wishes.bootstrap is not None:
        run = DemoRun(demo, wishes.bootstrap, data, console, storage=wishes.storage)
    else:
        count = wishes.brokers or demo.brokers
        console.print(f"Starting {counted(count, 'broker')} …", highlight=False)
        brokers = stack.enter_context(
            running_brokers(data / "broker", count, port=wishes.port, settings=demo.broker_settings)
        )  # fmt: skip
        if isinstance(brokers, DevelopmentCluster):
            url: str | None = brokers.console
        else:
            url = stack.enter_context(web_console(brokers.bootstrap, data / "console.log"))
        then = " Starting Spark …" if demo.uses_spark else ""
        console.print(f"{counted(count, 'broker')} on {brokers.bootstrap}.{then}", highlight=False)
        if url is not None:
            page = f"{url.rstrip('/')}/clusters/local/demos?name={demo.name}"
            console.print(f"The web console shows the demo on {page}", highlight=False)
        run = DemoRun(demo, brokers.bootstrap, data, console, brokers=brokers, storage=wishes.storage)
    stack.callback(run.stop_spark)
    run.prepare()
    stack.callback(run.close)
    return run
