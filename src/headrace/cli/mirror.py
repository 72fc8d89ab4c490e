"""`headrace mirror …`: copies topics between clusters, and translates the offsets of consumer groups."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from headrace.cli.support.connection import Output
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import Master, one_sentence, say

app = typer.Typer(no_args_is_help=True, help="Copy topics from one cluster to another.")
File = Annotated[Path, typer.Argument(help="YAML file of the mirror.", metavar="FILE")]


@app.command()
def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="Copy the existing records, then end.")] = False,
    master: Master = None,
) -> None:
    """Copy topics until it is stopped: every record once, with key, headers, timestamp and partition.

    $ headrace mirror run east.yml --once
    """
    with one_sentence():
        from headrace.pipelines.connectors.mirror import load_mirror, mirror_run
        from headrace.pipelines.session import spark_session

        spec = load_mirror(file)
        spark = spark_session(spec.name, master=master)
        try:
            running = mirror_run(spec, spark, once=once, report=say)

            def stop(_number: int, _frame: FrameType | None) -> None:
                running.stop()

            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
            running.start()
            say(f"mirror {spec.name}: {spec.source_bootstrap} → {spec.target_bootstrap}, topics {spec.topics}")
            running.supervise()
        finally:
            spark.stop()


@app.command()
def offsets(
    file: File, group: Annotated[str, typer.Option(help="The consumer group.")], output: Output = Format.TABLE
) -> None:
    """Translate a group's offsets to the target, where records have other offsets, and commit them.

    $ headrace mirror offsets east.yml --group readers
    """
    with one_sentence():
        from headrace.pipelines.connectors.mirror import load_mirror, translate_group

        moved = sorted(translate_group(load_mirror(file), group).items())
    if output is Format.TABLE:
        for (topic, partition), (there, here) in moved:
            typer.echo(f"{topic}-{partition}: {there} → {here}")
        return
    show([{"topic": t, "partition": p, "source": there, "target": here} for (t, p), (there, here) in moved], output)
