"""`headrace demo …`: the case studies and use cases, each in one command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from headrace.cli.support.connection import Failed, Output
from headrace.cli.support.output import Format, show
from headrace.cli.support.spelling import nearest


class DemoNames(TyperGroup):
    """`headrace demo taxi` is short for `headrace demo run taxi`."""

    def resolve_command(self, ctx: typer.Context, args: list[str]):  # type: ignore[no-untyped-def,override]
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=DemoNames,
    no_args_is_help=True,
    help="Running examples: the case studies and use cases. `headrace demo NAME` runs one.",
)

Data = Annotated[Path | None, typer.Option(help="Where the demo keeps its files.")]
Cluster = Annotated[str | None, typer.Option("--bootstrap", help="Use this cluster instead of starting a broker.")]

For = Annotated[str | None, typer.Option("--for", help="On a terminal: stop after this time, for instance 2m.")]
Count = Annotated[int | None, typer.Option(min=1, max=9, help="Number of brokers; more than one needs Java.")]


@app.callback()
def demo() -> None:
    pass


@app.command()
def wordcount(data: Data = None, bootstrap: Cluster = None, for_: For = None, brokers: Count = None) -> None:
    """Count words with Spark: a broker, two topics, a pipeline, sample text and a live table.

    $ headrace demo wordcount --data data
    """
    from headrace.demos.wordcount.demo import run_wordcount

    limit = _seconds(for_)
    if bootstrap is not None and brokers is not None:
        raise typer.BadParameter("--bootstrap uses a running cluster: leave out --brokers")
    _end_in_order()
    sys.exit(run_wordcount(data=data, bootstrap=bootstrap, seconds=limit, brokers=brokers or 1))


def _seconds(given: str | None) -> float | None:
    from headrace.datagen.errors import BadPlan
    from headrace.datagen.plan import seconds

    try:
        return None if given is None else seconds(given, "--for")
    except BadPlan as fault:
        raise typer.BadParameter(str(fault)) from None


def _end_in_order() -> None:
    """SIGTERM stops the brokers and services of the demo too, which have sessions of their own."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@app.command()
def run(
    name: Annotated[
        str, typer.Argument(metavar="DEMO", help="A name of `headrace demo ls`, or the directory of a copy.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Where the demo keeps its files. Without it they are removed at the end.")
    ] = None,
    bootstrap: Cluster = None,
    for_: For = None,
    brokers: Count = None,
    port: Annotated[int | None, typer.Option(min=0, max=65000, help="Port of the first broker.")] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where the pipeline keeps its tables and checkpoints: a directory, or an address such as "
            "hdfs://namenode:8020/demo. Below --data without it."
        ),
    ] = None,
) -> None:
    """Run a demo: brokers, generated records, a Spark pipeline or services, a live picture. Ctrl-C stops it.

    `headrace demo NAME` is short for it. Without a terminal the demo ends by itself and compares its result with a
    computation in plain Python.

    $ headrace demo queue --for 30s
    $ headrace demo ingestion --storage hdfs://namenode:8020/demo
    """
    from headrace.demos.catalogue import copied, demos
    from headrace.demos.program import Wishes, run_demo

    known = demos()
    chosen = known.get(name) or copied(Path(name))
    if chosen is None:
        names = [*known, "wordcount"]
        raise Failed(f"no demo {name!r}.{nearest(name, names)} `headrace demo ls` lists the demos.")
    limit = _seconds(for_)
    if bootstrap is not None and (brokers is not None or port is not None):
        raise typer.BadParameter("--bootstrap uses a running cluster: leave out --brokers and --port")
    if storage is not None and not chosen.has_pipeline:
        raise typer.BadParameter(f"demo {chosen.name!r} has no pipeline with tables: leave out --storage")
    if storage is not None and "://" not in storage:
        storage = str(Path(storage).resolve())
    _end_in_order()
    sys.exit(run_demo(chosen, Wishes(data, bootstrap, limit, brokers, port, storage)))


@app.command(name="ls")
def list_demos(output: Output = Format.TABLE) -> None:
    """List the demos.

    $ headrace demo ls
    """
    from headrace.demos.catalogue import demos
    from headrace.demos.wordcount.screen import TITLE

    rows = [{"demo": "wordcount", "shows": TITLE, "spark": "yes", "directory": "—"}]
    rows += [
        {
            "demo": each.name,
            "shows": each.check.TITLE,
            "spark": "yes" if each.uses_spark else "no",
            "directory": str(each.directory),
        }
        for each in demos().values()
    ]
    if output is Format.TABLE:
        rows = [{name: value for name, value in row.items() if name != "directory"} for row in rows]
    show(rows, output)
