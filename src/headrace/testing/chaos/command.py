"""`headrace chaos run`: an application under a fault plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.connection import Failed, Output
from headrace.cli.support.output import Format, show_one
from headrace.testing.chaos.plan import PlanError, load_plan
from headrace.testing.chaos.run import run_plan

app = typer.Typer(no_args_is_help=True, help="Run an application under faults, and check what it did.")


@app.callback()
def group() -> None:
    """Makes `run` a command of its own: with one command, typer would leave its name out."""


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan: a YAML file.")],
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report with a picture to this HTML file.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Other moments for the faults. Default: the plan's.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Write numbered records, run the application under the faults of the plan, and check its output.

    The exit code is 1 if records were lost, doubled, disordered or left unread, as far as the plan forbids it. Without
    `bootstrap` in the plan, the cluster runs in this process and ends with the command.

    $ headrace chaos run plan.yml --report chaos.html
    """
    try:
        read = load_plan(plan)
        result = run_plan(read if seed is None else replace(read, seed=seed), lambda text: typer.echo(text, err=True))
    except PlanError as error:
        raise Failed(str(error)) from error
    if report is not None:
        try:
            result.write_html(report)
        except OSError as error:
            raise Failed(f"{report} cannot be written: {error.strerror}") from error
    if output is Format.TABLE:
        typer.echo(str(result))
        if report is not None:
            typer.echo(f"report: {report}")
    else:
        show_one(result.facts(), output)
    raise typer.Exit(0 if result.is_clean else 1)
