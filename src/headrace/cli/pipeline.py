"""`headrace pipeline …`: creates, checks, runs, monitors and resets pipelines."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.support.change_report import Row, report, report_one
from headrace.cli.support.connection import Bootstrap, Output, bootstrap_address
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import (
    BackendName,
    CommandConfig,
    Directory,
    Master,
    Settings,
    cluster_client,
    one_sentence,
    pipeline_spec,
    say,
    security_for,
)
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.pipelines.flows.runner import PipelineRun

_NO_FLOWS: Final = "no pipeline has reported to this cluster yet"

app = typer.Typer(no_args_is_help=True, help="Data pipelines on Spark.")
dlq = typer.Typer(no_args_is_help=True, help="Dead letters: rows that a pipeline could not decode.")
app.add_typer(dlq, name="dlq")


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
) -> None:
    """Run a pipeline until it is stopped (Ctrl-C, SIGTERM or 'headrace pipeline stop').

    $ headrace pipeline run shout --once
    """
    with one_sentence():
        from headrace.pipelines.connectors.connector import pipeline_run
        from headrace.pipelines.flows.session import pipeline_session, refuse_while_running

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        refuse_while_running(spec)
        spec, spark = pipeline_session(spec, backend, master, say)
        try:
            running = pipeline_run(directory, spec, spark, once=once, report=say)
            _stop_on_signals(running)
            running.start()
            say(f"pipeline {spec.name}: {', '.join(flow.name for flow in running.flows) or 'views only'}")
            running.supervise()
        finally:
            spark.stop()


def _stop_on_signals(running: PipelineRun) -> None:
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


@app.command()
def reset(
    directory: Directory,
    to: Annotated[str, typer.Option(help='earliest, latest, a time, or offsets like {"topic":{"0":5}}.')],
    flow: Annotated[str | None, typer.Option(help="Reset only this flow.")] = None,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Move a stopped pipeline to other offsets.

    $ headrace pipeline reset shout --to earliest
    """
    with one_sentence():
        from headrace.pipelines.flows.reset import reset as move

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        moved = move(spec, to, flow=flow, bootstrap=spec.bootstrap)
    report([{"flow": name, "offsets": offsets, "done": True} for name, offsets in moved.items()], output, _moved)


def _moved(row: Row) -> str:
    if row["offsets"] is None:
        return f"{row['flow']}: forgotten; it begins at its own startingOffsets"
    return f"{row['flow']}: now at {json.dumps(row['offsets'])}"


@app.command()
def replay(
    directory: Directory,
    flow: Annotated[str, typer.Option(help="Flow to run again.")],
    begin: Annotated[str, typer.Option("--from", help="Start: a time, earliest, or offsets as JSON.")],
    end: Annotated[str, typer.Option("--to", help="End: a time, latest, or offsets as JSON.")],
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    master: Master = None,
    backend: BackendName = None,
    output: Output = Format.TABLE,
) -> None:
    """Run one flow again over a past range. Its offsets do not change.

    $ headrace pipeline replay shout --flow shouted --from earliest --to latest
    """
    with one_sentence():
        from headrace.pipelines.flows.replay import replay as run_again
        from headrace.pipelines.flows.reset import check_place, flow_checkpoints
        from headrace.pipelines.flows.session import pipeline_session

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        # Report errors before Spark starts, which takes seconds.
        flow_checkpoints(spec, flow)
        for place in (begin, end):
            check_place(place)
        spec, spark = pipeline_session(spec, backend, master, say)
        try:
            rows = run_again(spec, spark, flow=flow, begin=begin, end=end, bootstrap=spec.bootstrap, report=say)
        finally:
            spark.stop()
    report_one({"flow": flow, "rows": rows, "done": True}, output, f"{flow}: {counted(rows, 'row')} replayed")


@app.command("ls")
def list_pipelines(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, output: Output = Format.TABLE
) -> None:
    """List every flow that has reported to this cluster.

    $ headrace pipeline ls

    $ headrace pipeline ls -o json
    """
    with one_sentence():
        from headrace.pipelines.flows.progress import describe, read_progress

        flows = read_progress(bootstrap_address(bootstrap), security_for(command_config))
        found = [progress for _, progress in sorted(flows.items())]
        if output is not Format.TABLE:
            show(found, output)
            return
        for progress in found:
            typer.echo(describe(progress))
        if not found:
            typer.echo(_NO_FLOWS)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Show only this pipeline.")] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the table until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show rate, lag, batch time, state and last error of every flow.

    $ headrace pipeline status shout

    $ headrace pipeline status -o yaml
    """
    address = bootstrap_address(bootstrap)
    with one_sentence():
        from headrace.pipelines.flows.progress import read_progress
        from headrace.pipelines.flows.status_screen import rows_of, table_of

        security = security_for(command_config)

        def flows() -> list[dict[str, object]]:
            found = sorted(read_progress(address, security).items())
            return [progress for _, progress in found if name in (None, progress["pipeline"])]

        if output is not Format.TABLE:
            show(flows(), output)
            return
        if as_json:
            for progress in flows():
                typer.echo(json.dumps(progress))
            return
        if not watch:
            show(rows_of(flows()), output, empty=_NO_FLOWS)
            return
        try:
            while not sys.stdout.isatty():
                show(rows_of(flows()), output, empty=_NO_FLOWS)
                print(flush=True)
                time.sleep(1)
            from rich.live import Live

            with Live(table_of(flows()), refresh_per_second=2) as live:
                while True:
                    time.sleep(1)
                    live.update(table_of(flows()))
        except KeyboardInterrupt:
            sys.exit(0)


@app.command()
def jars(output: Output = Format.TABLE) -> None:
    """Download Spark's Kafka connector (four jars, with Maven) into the cache and print the paths.

    $ headrace pipeline jars
    """
    with one_sentence():
        from headrace.pipelines.spark.connector_jars import fetch_jars

        rows = [{"file": str(jar)} for jar in fetch_jars(report=say)]
    report(rows, output, lambda row: str(row["file"]))


@dlq.command("ls")
def list_dead_letters(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, output: Output = Format.TABLE
) -> None:
    """List topics with dead letters: how many wait, and the last error.

    $ headrace pipeline dlq ls

    $ headrace pipeline dlq ls -o json
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import list_dead_letters as listed

        with cluster_client(bootstrap, command_config) as client:
            rows = [dataclasses.asdict(letters) for letters in listed(client)]
        show(rows, output, empty="no dead letters")


@dlq.command()
def retry(
    topic: Annotated[str, typer.Argument(help="The topic, with or without .dlq.")],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Write each waiting dead letter back to its topic, once.

    $ headrace pipeline dlq retry orders
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import retry_dead_letters

        with cluster_client(bootstrap, command_config) as client:
            sent = retry_dead_letters(client, topic)
    report_one({"topic": topic, "records": sent, "done": True}, output, f"{counted(sent, 'record')} sent back")
