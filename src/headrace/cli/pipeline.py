"""`headrace pipeline …`: make, check, run, watch and move pipelines."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.output import Format, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.spec import PipelineSpec

app = typer.Typer(no_args_is_help=True, help="Data pipelines on Spark.")
dlq = typer.Typer(no_args_is_help=True, help="Dead letters: rows that could not be read.")
app.add_typer(dlq, name="dlq")

Directory = Annotated[Path, typer.Argument(help="The pipeline's directory.", metavar="DIR")]
Bootstrap = Annotated[str | None, typer.Option(envvar="HEADRACE_BOOTSTRAP", help="host:port of the brokers.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE over the pipeline's configuration.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")]
BackendName = Annotated[
    str | None, typer.Option("--backend", help="auto, python (no jar) or jvm (Spark's own connector).")
]
Master = Annotated[str | None, typer.Option(help="Spark master: local[*], spark://…, yarn, k8s://…")]
_DEFAULT_BOOTSTRAP = "localhost:9092"


@contextmanager
def _one_sentence() -> Iterator[None]:
    """What a user can do something about is one line and exit 1; anything else is a bug and keeps its traceback."""
    from headrace.kernel.errors import Fault
    from headrace.pipelines.errors import PipelineError

    try:
        yield
    except (PipelineError, Fault) as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(1) from None


def _spec(directory: Path, settings: list[str] | None, bootstrap: str | None) -> PipelineSpec:
    from headrace.pipelines.errors import OptionError
    from headrace.pipelines.spec import BOOTSTRAP, load_spec

    given = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise OptionError(f"--set {setting}: must be KEY=VALUE")
        given[key] = value
    if bootstrap:
        given[BOOTSTRAP] = bootstrap
    return load_spec(directory).with_settings(given)


def _say(text: str) -> None:
    typer.echo(text, err=True)


@app.command()
def init(
    directory: Directory, template: Annotated[str, typer.Option(help="copy, json, lake or wordcount.")] = "copy"
) -> None:
    """Write a new pipeline that runs as it is.

    $ headrace pipeline init shout
    """
    from headrace.pipelines.templates import init as write

    with _one_sentence():
        for file in write(directory, template):
            typer.echo(file)
    typer.echo(f"Run it with: headrace pipeline run {directory}")


@app.command()
def run(
    directory: Directory,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, then end.")] = False,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    master: Master = None,
    backend: BackendName = None,
) -> None:
    """Run a pipeline until it is stopped (Ctrl-C, SIGTERM or 'headrace pipeline stop').

    $ headrace pipeline run shout --once
    """
    with _one_sentence():
        from headrace.pipelines.connectors import is_connector, run_connector

        if is_connector(directory):
            _refuse_jvm(backend)
            run_connector(directory, once=once, bootstrap=bootstrap, master=master, report=_say)
            return
        spec = _spec(directory, settings, bootstrap)
        from headrace.pipelines.moving import refuse_while_running
        from headrace.pipelines.runner import PipelineRun

        refuse_while_running(spec)
        spec, spark = _session(spec, backend, master)
        running = PipelineRun(spec, spark, report=_say, once=once)
        _stop_on_signals(running)
        try:
            running.start()
            _say(f"pipeline {spec.name}: {', '.join(flow.name for flow in running.flows) or 'views only'}")
            running.supervise()
        finally:
            spark.stop()


def _session(spec: PipelineSpec, backend: str | None, master: str | None) -> tuple[PipelineSpec, SparkSession]:
    """A session with the chosen backend, which is told, and the pipeline as that backend runs it."""
    from headrace.pipelines.connector_jars import choose_backend
    from headrace.pipelines.session import spark_session
    from headrace.pipelines.spec import BACKEND, FORMAT, REALTIME

    wish = backend or spec.configuration.get(BACKEND, "auto")
    chosen = choose_backend(wish, realtime=REALTIME in spec.configuration)
    _say(f"pipeline {spec.name}: {chosen}")
    static = {name: value for name, value in spec.configuration.items() if name.startswith("spark.")}
    spark = spark_session(spec.name, master=master, settings=chosen.settings(static))
    return spec.with_settings({FORMAT: chosen.format}), spark


def _refuse_jvm(backend: str | None) -> None:
    from headrace.pipelines.errors import OptionError

    if backend not in (None, "auto", "python"):
        raise OptionError(f"--backend {backend}: connectors read topics with backend python; pipelines have the choice")


def _stop_on_signals(running: Any) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


@app.command()
def check(
    directory: Directory, settings: Settings = None, bootstrap: Bootstrap = None, backend: BackendName = None
) -> None:
    """Analyse every flow without starting any.

    $ headrace pipeline check shout
    """
    with _one_sentence():
        from headrace.pipelines.runner import PipelineRun

        spec, spark = _session(_spec(directory, settings, bootstrap), backend, None)
        try:
            for item in PipelineRun(spec, spark, report=_say).resolve():
                columns = ", ".join(
                    f"{field.name} {field.dataType.simpleString()}" for field in item.frame.schema.fields
                )
                typer.echo(f"{item.flow.name} → {item.target.name}: {columns}")
        finally:
            spark.stop()


@app.command()
def stop(directory: Directory, timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 60.0) -> None:
    """Stop a pipeline that runs on this machine, after its batch.

    $ headrace pipeline stop shout
    """
    with _one_sentence():
        from headrace.pipelines.errors import PipelineError
        from headrace.pipelines.runner import RUN_FILE
        from headrace.pipelines.spec import load_spec

        spec = load_spec(directory)
        file = spec.storage_path / RUN_FILE
        if not file.exists():
            raise PipelineError(f"pipeline {spec.name!r} does not run here")
        pid = int(json.loads(file.read_text())["pid"])
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
            raise PipelineError(f"pipeline {spec.name!r} ended without a word (process {pid} is gone)") from None
        deadline = time.monotonic() + timeout
        while file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        if file.exists():
            raise PipelineError(f"process {pid} has not stopped within {timeout:g} s")
    typer.echo(f"pipeline {spec.name} stopped")


@app.command()
def reset(
    directory: Directory,
    to: Annotated[str, typer.Option(help='earliest, latest, a time, or offsets like {"topic":{"0":5}}.')],
    flow: Annotated[str | None, typer.Option(help="Only this flow.")] = None,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Move a stopped pipeline to other offsets.

    $ headrace pipeline reset shout --to earliest
    """
    with _one_sentence():
        from headrace.pipelines.moving import reset as move

        move(_spec(directory, settings, bootstrap), to, flow=flow, bootstrap=bootstrap, report=typer.echo)


@app.command()
def replay(
    directory: Directory,
    flow: Annotated[str, typer.Option(help="The flow to run again.")],
    begin: Annotated[str, typer.Option("--from", help="A time, earliest, or offsets.")],
    end: Annotated[str, typer.Option("--to", help="A time, latest, or offsets.")],
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    master: Master = None,
    backend: BackendName = None,
) -> None:
    """Run one flow again over a stretch of the past; its own position stays.

    $ headrace pipeline replay shout --flow shouted --from earliest --to latest
    """
    with _one_sentence():
        from headrace.pipelines.moving import check_place, flow_checkpoints
        from headrace.pipelines.replay import replay as run_again

        spec = _spec(directory, settings, bootstrap)
        # What is wrong is told before Spark is started for it.
        flow_checkpoints(spec, flow)
        for place in (begin, end):
            check_place(place)
        spec, spark = _session(spec, backend, master)
        try:
            rows = run_again(spec, spark, flow=flow, begin=begin, end=end, bootstrap=bootstrap, report=_say)
        finally:
            spark.stop()
    typer.echo(f"{flow}: {rows} rows replayed")


@app.command("ls")
def list_pipelines(bootstrap: Bootstrap = None, output: Output = Format.TABLE) -> None:
    """Every flow that ever reported to this cluster, one line each.

    $ headrace pipeline ls

    $ headrace pipeline ls -o json
    """
    with _one_sentence():
        from headrace.pipelines.progress import describe, read_progress

        found = [progress for _, progress in sorted(read_progress(bootstrap or _DEFAULT_BOOTSTRAP).items())]
        if output is not Format.TABLE:
            show(found, output)
            return
        for progress in found:
            typer.echo(describe(progress))
        if not found:
            typer.echo("no pipeline has reported to this cluster yet")


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Only this pipeline.")] = None,
    bootstrap: Bootstrap = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep drawing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Rate, lag, batch time, state and last error of every flow.

    $ headrace pipeline status shout

    $ headrace pipeline status -o yaml
    """
    address = bootstrap or _DEFAULT_BOOTSTRAP
    with _one_sentence():
        from headrace.pipelines.progress import read_progress
        from headrace.pipelines.status_screen import table_of

        def flows() -> list[dict[str, Any]]:
            found = sorted(read_progress(address).items())
            return [progress for _, progress in found if name in (None, progress["pipeline"])]

        if output is not Format.TABLE:
            show(flows(), output)
            return
        if as_json:
            for progress in flows():
                typer.echo(json.dumps(progress))
            return
        from rich.console import Console
        from rich.live import Live

        if not watch:
            found = flows()
            Console().print(table_of(found) if found else "no pipeline has reported to this cluster yet")
            return
        try:
            with Live(table_of(flows()), refresh_per_second=2) as live:
                while True:
                    time.sleep(1)
                    live.update(table_of(flows()))
        except KeyboardInterrupt:
            sys.exit(0)


@app.command()
def jars() -> None:
    """Fetch Spark's own Kafka connector (four jars, through Maven) into the cache, and print their paths.

    $ headrace pipeline jars
    """
    with _one_sentence():
        from headrace.pipelines.connector_jars import fetch_jars

        for jar in fetch_jars(report=_say):
            typer.echo(jar)


@dlq.command("ls")
def list_dead_letters(bootstrap: Bootstrap = None, output: Output = Format.TABLE) -> None:
    """Topics with dead letters: how many wait, and why the last one came.

    $ headrace pipeline dlq ls

    $ headrace pipeline dlq ls -o json
    """
    with _one_sentence():
        from headrace.client.blocking import BlockingClient
        from headrace.pipelines.dlq import list_dead_letters as listed

        with BlockingClient(bootstrap or _DEFAULT_BOOTSTRAP) as client:
            rows = [dataclasses.asdict(letters) for letters in listed(client)]
        show(rows, output, empty="no dead letters")


@dlq.command()
def retry(
    topic: Annotated[str, typer.Argument(help="The topic, with or without .dlq.")], bootstrap: Bootstrap = None
) -> None:
    """Send the waiting dead letters back to the topics they came from, each once.

    $ headrace pipeline dlq retry orders
    """
    with _one_sentence():
        from headrace.client.blocking import BlockingClient
        from headrace.pipelines.dlq import retry_dead_letters

        with BlockingClient(bootstrap or _DEFAULT_BOOTSTRAP) as client:
            typer.echo(f"{retry_dead_letters(client, topic)} sent back")
