"""The commands and their help."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, help="A Kafka-compatible streaming platform.")


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start(context: typer.Context) -> None:
    """Run one broker in the foreground."""
    from headrace.cli.start import run

    sys.exit(run(context.args))


@app.callback(invoke_without_command=True)
def headrace(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
