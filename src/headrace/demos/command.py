"""`headrace demo …`: the case studies and use cases, each in one command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.connection import Failed, Output
from headrace.cli.support.output import Format, show
from headrace.cli.support.spelling import nearest

app = typer.Typer(no_args_is_help=True, help="Running examples: the case studies and use cases.")

Data = Annotated[Path | None, typer.Option(help="Where broker and pipeline keep their files.")]
Cluster = Annotated[str | None, typer.Option("--bootstrap", help="Use this cluster instead of starting a broker.")]


@app.callback()
def demo() -> None:
    pass


@app.command()
def wordcount(data: Data = None, bootstrap: Cluster = None) -> None:
    """Count words with Spark: a broker, two topics, a pipeline, sample text and a live table.

    $ headrace demo wordcount --data data
    """
    from headrace.demos.wordcount.demo import run_wordcount

    sys.exit(run_wordcount(data=data, bootstrap=bootstrap))


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="DEMO", help="`headrace demo ls` lists the names.")],
    data: Data = None,
    bootstrap: Cluster = None,
    for_: Annotated[str | None, typer.Option("--for", help="Stop after this time, for instance 2m.")] = None,
) -> None:
    """Run a demo: a broker, generated records, a Spark pipeline, a live picture. Ctrl-C stops it.

    Without a terminal it ends by itself and compares Spark's result with a computation without Spark.

    $ headrace demo run social --for 30s
    """
    from headrace.datagen.errors import BadPlan
    from headrace.datagen.plan import seconds
    from headrace.demos.catalogue import demos
    from headrace.demos.run import run_demo

    known = demos()
    if name not in known:
        raise Failed(f"no demo {name!r}.{nearest(name, known)} `headrace demo ls` lists the demos.")
    try:
        limit = None if for_ is None else seconds(for_, "--for")
    except BadPlan as fault:
        raise typer.BadParameter(str(fault)) from None
    sys.exit(run_demo(known[name], data=data, bootstrap=bootstrap, seconds=limit))


@app.command(name="ls")
def list_demos(output: Output = Format.TABLE) -> None:
    """List the demos.

    $ headrace demo ls
    """
    from headrace.demos.catalogue import demos

    rows = [{"demo": "wordcount", "shows": "Words of a text, counted as they arrive.", "directory": "—"}]
    rows += [
        {"demo": each.name, "shows": each.check.TITLE, "directory": str(each.directory)} for each in demos().values()
    ]
    show(rows, output)
