"""`headrace demo wordcount`: runs the word count example in one command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Running examples.")


@app.callback()
def demo() -> None:
    pass


@app.command()
def wordcount(
    data: Annotated[Path | None, typer.Option(help="Where broker and pipeline keep their files.")] = None,
    bootstrap: Annotated[str | None, typer.Option(help="Use this cluster instead of starting a broker.")] = None,
) -> None:
    """Count words with Spark: a broker, two topics, a pipeline, sample text and a live table.

    $ headrace demo wordcount --data data
    """
    from headrace.demos.wordcount.demo import run_wordcount

    sys.exit(run_wordcount(data=data, bootstrap=bootstrap))
