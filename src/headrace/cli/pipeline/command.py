"""`headrace pipeline`: creates, checks, runs and stops pipelines. The other commands are in the modules beside it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.pipeline import dead_letters, flow_names, flow_tests, offsets, snapshots, status
from headrace.cli.support.change_report import Row, report, report_one
from headrace.cli.support.connection import Bootstrap, Output
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import (
    BackendName,
    CommandConfig,
    Directory,
    Master,
    Settings,
    one_sentence,
    pipeline_spec,
    say,
)
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.pipelines.flows.runner import PipelineRun
    from headrace.pipelines.lite.run import LiteRun

app = typer.Typer(no_args_is_help=True, help="Data pipelines on Spark.")


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Directory to create.", metavar="DIR")],
    template: Annotated[str, typer.Option(help="Template: copy, json, lake or wordcount.")] = "copy",
    output: Output = Format.TABLE,
) -> None:
    """Write a new pipeline that you can run at once.

    $ headrace pipeline init shout
    """
    from headrace.pipelines.flows.templates import init as write

    with one_sentence():
        rows = [{"file": str(file), "done": True} for file in write(directory, template)]
    report(rows, output, lambda row: str(row["file"]))
    if output is Format.TABLE:
        typer.echo(f"Run it with: headrace pipeline run {directory}")


@app.command()
def run(
    directory: Directory,
    once: Annotated[bool, typer.Option("--once", help="Process the existing records, then end.")] = False,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    master: Master = None,
    backend: BackendName = None,
    accept_changed_query: Annotated[
        bool,
        typer.Option(
            "--accept-changed-query",
            help="Keep the state of flows whose expressions below the state changed. Old state stays as it is.",
        ),
    ] = False,
    lite: Annotated[
        bool, typer.Option("--lite", help="Run a stateless connector without Spark. It continues where Spark stopped.")
    ] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
    ] = None,
) -> None:
    """Run a pipeline until it is stopped (Ctrl-C, SIGTERM or 'headrace pipeline stop').

    $ headrace pipeline run shout --once
    """
    if lite:
        run_lite(directory, settings, bootstrap, command_config, once=once)
        return
    with one_sentence():
        from headrace.pipelines.connectors.connector import pipeline_run
        from headrace.pipelines.flows.metrics import served_metrics
        from headrace.pipelines.flows.session import pipeline_session, refuse_while_running

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        refuse_while_running(spec)
        spec, spark = pipeline_session(spec, backend, master, say)
        try:
            running = pipeline_run(directory, spec, spark, once=once, report=say)
            running.accept_changed_query = accept_changed_query
            running.is_controlled = not once
            stop_on_signals(running)
            running.start()
            say(f"pipeline {spec.name}: {', '.join(flow.name for flow in running.flows) or 'views only'}")
            try:
                with served_metrics(metrics, lambda: running.flows):
                    running.supervise()
            finally:
                _say_totals(running)
        finally:
            spark.stop()


def _say_totals(running: PipelineRun) -> None:
    """The rows of each flow, and the counts of its rules, after a run with --once."""
    if not running.once:
        return
    for flow in running.flows:
        say(_total(flow.totals()))
        for name, rule in flow.rules().items():
            say(f"  rule {name} ({rule['action']}): {rule['checked']} checked, {rule['failed']} failed")


def _total(row: Row) -> str:
    return (
        f"{row['flow']}: {counted(int(str(row['read'])), 'row')} read, {row['written']} written, "
        f"{row['dropped']} dropped, {counted(int(str(row['dead letters'])), 'dead letter')}"
    )


def run_lite(
    file: Path, settings: list[str] | None, bootstrap: str | None, command_config: Path | None, *, once: bool
) -> None:
    with one_sentence():
        from headrace.pipelines.connectors.connector import connector_of, is_connector
        from headrace.pipelines.errors import OptionError
        from headrace.pipelines.lite.run import LiteRun

        if not is_connector(file):
            raise OptionError(f"--lite runs connector files (.yml), {file} is a pipeline of definition files")
        connector = connector_of(file, pipeline_spec(file, settings, bootstrap, command_config))
        running = LiteRun(connector, say, once=once, is_controlled=not once)
        stop_on_signals(running)
        running.start()
        say(f"connector {connector.name}: {connector.source.kind} → {connector.target.kind}, without Spark")
        running.supervise()
        if once:
            for row in running.totals():
                say(_total(row))


def stop_on_signals(running: PipelineRun | LiteRun) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


@app.command()
def check(
    directory: Directory,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    backend: BackendName = None,
    output: Output = Format.TABLE,
) -> None:
    """Analyse every flow without starting any.

    $ headrace pipeline check shout
    """
    with one_sentence():
        from headrace.pipelines.connectors.connector import pipeline_run
        from headrace.pipelines.flows.session import pipeline_session

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        spec, spark = pipeline_session(spec, backend, None, say)
        try:
            rows = [
                {
                    "flow": item.flow.name,
                    "target": item.target.name,
                    "columns": {field.name: field.dataType.simpleString() for field in item.frame.schema.fields},
                }
                for item in pipeline_run(directory, spec, spark, once=True, report=say).resolve()
            ]
        finally:
            spark.stop()
    if output is not Format.TABLE:
        show(rows, output)
        return
    for row in rows:
        columns = ", ".join(f"{name} {kind}" for name, kind in row["columns"].items())
        typer.echo(f"{row['flow']} → {row['target']}: {columns}")


@app.command()
def stop(
    directory: Directory,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 60.0,
    output: Output = Format.TABLE,
) -> None:
    """Stop a pipeline on this machine after its current batch.

    $ headrace pipeline stop shout
    """
    with one_sentence():
        from headrace.pipelines.errors import PipelineError
        from headrace.pipelines.flows.run_lock import holder_of

        spec = pipeline_spec(directory, None, None)
        holder = holder_of(spec)
        if holder is None or not holder.pid:
            raise PipelineError(f"pipeline {spec.name!r} does not run here")
        if not holder.is_here:
            raise PipelineError(f"pipeline {spec.name!r} runs on {holder.host}: stop it there")
        try:
            os.kill(holder.pid, signal.SIGTERM)
        except ProcessLookupError:
            raise PipelineError(
                f"pipeline {spec.name!r} runs as process {holder.pid} of another container: stop it there"
            ) from None
        deadline = time.monotonic() + timeout
        while holder_of(spec) == holder:
            if time.monotonic() > deadline:
                raise PipelineError(f"process {holder.pid} has not stopped within {timeout:g} s")
            time.sleep(0.1)
    row = {"pipeline": spec.name, "process": holder.pid, "done": True}
    report_one(row, output, f"pipeline {spec.name} stopped")


app.command()(flow_tests.test)
app.command()(offsets.reset)
app.command()(offsets.replay)
app.command()(snapshots.snapshot)
app.command()(flow_names.rename)
app.command()(flow_names.forget)
app.command("ls")(status.list_pipelines)
app.command()(status.status)


@app.command()
def jars(output: Output = Format.TABLE) -> None:
    """Download Spark's Kafka connector (four jars, with Maven) into the cache and print the paths.

    $ headrace pipeline jars
    """
    with one_sentence():
        from headrace.pipelines.spark.connector_jars import fetch_jars

        rows = [{"file": str(jar)} for jar in fetch_jars(report=say)]
    report(rows, output, lambda row: str(row["file"]))


app.add_typer(dead_letters.app, name="dlq")
