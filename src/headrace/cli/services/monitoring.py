"""`headrace monitoring write`: alert rules for Prometheus and dashboards for Grafana."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Failed, Output
from headrace.cli.support.output import Format

app = typer.Typer(no_args_is_help=True, help="Files for Prometheus and Grafana.")
_TARGET: Final = re.compile(r"[^\s:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


@app.callback()
def monitoring() -> None:
    """Files for Prometheus and Grafana."""


@app.command()
def write(
    directory: Annotated[Path, typer.Argument(help="Directory for the files. It is created if it is not there.")],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="HOST:PORT", help="Address of a broker's metrics. You can repeat it."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Write a configuration for Prometheus, alert rules, and dashboards for Grafana.

    $ headrace monitoring write monitoring --target 127.0.0.1:9404
    """
    from headrace.telemetry.monitoring.files import write as write_files

    targets = target or ["127.0.0.1:9404"]
    for one in targets:
        if _TARGET.fullmatch(one) is None:
            raise typer.BadParameter(f"--target {one!r}: must be HOST:PORT, the metrics.listen of a broker")
    try:
        files = write_files(directory, targets)
    except OSError as error:
        raise Failed(f"cannot write to {directory}: {error.strerror}") from error
    row = {"directory": str(directory), "files": [str(file.relative_to(directory)) for file in files], "done": True}
    names = ", ".join(str(name) for name in row["files"]) if isinstance(row["files"], list) else ""
    report_one(row, output, f"wrote {names} to {directory}")
