"""`headrace doctor`: connects as a client does, and reports problems with their remedies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.checks.diagnosis import CheckLimits, Finding, State, examine
from headrace.cli.checks.findings import together
from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.connection import Bootstrap, Failed, Output, Timeout, bootstrap_address
from headrace.cli.support.output import Format, show, wrapped
from headrace.config import parse_properties
from headrace.kernel.plurals import counted

app = typer.Typer()


@app.command()
def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Properties file of a client, with bootstrap.servers and security.protocol."),
    ] = None,
    watch: Annotated[float, typer.Option("--watch-lag", min=0, help="Seconds to watch whether lag grows.")] = 1.0,
    details: Annotated[
        bool, typer.Option("--details", help="List every partition behind a finding. JSON and YAML always have them.")
    ] = False,
    min_free: Annotated[
        float,
        typer.Option("--min-free", min=0, max=100, help="Report disks with less free space than this percentage."),
    ] = 10,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 5.0,
) -> None:
    """Check addresses, protocol, replicas, groups, lag, disks, strays, clocks. Exits with 1 when something is broken.

    $ headrace doctor

    $ headrace doctor --watch-lag 0.2 --min-free 1 -o json
    """
    settings = client_settings(bootstrap) if config is None else _client_settings(config)
    address = bootstrap_address(bootstrap or settings.get("bootstrap.servers"))
    findings = asyncio.run(examine(address, CheckLimits(timeout, watch, min_free), settings))
    if output is not Format.TABLE:
        show([finding.document() for finding in findings], output)
    else:
        _show(findings, details=details)
    raise typer.Exit(1 if any(finding.state is State.FAIL for finding in findings) else 0)


def _client_settings(file: Path) -> dict[str, str]:
    try:
        return dict(parse_properties(file.read_text()))
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


_MARKS: Final = {State.OK: ("ok  ", "green"), State.WARN: ("WARN", "yellow"), State.FAIL: ("FAIL", "red")}
_INDENT: Final = " " * 6


def _show(findings: Sequence[Finding], *, details: bool) -> None:
    """Prints findings: wrapped in a terminal; one line each without colour in a pipe or a file."""
    color = False if os.environ.get("NO_COLOR") else None  # None: colour only in a terminal
    for finding in findings:
        mark, name = _MARKS[finding.state]
        found = wrapped(f"{finding.check}: {finding.found}", _INDENT).removeprefix(_INDENT)
        lines = [f"{typer.style(mark, fg=name, bold=finding.state is State.FAIL)}  {found}"]
        if finding.remedy:
            lines.append(wrapped(f"do: {finding.remedy}", _INDENT))
        if details:
            lines += [wrapped(f"- {detail}", _INDENT) for detail in finding.details]
        typer.echo("\n".join(lines), color=color)
    typer.echo(f"\n{_summary(findings)}", color=color)
    if not details and any(finding.details for finding in findings):
        typer.echo("headrace doctor --details lists the partitions behind each finding")


def _summary(findings: Sequence[Finding]) -> str:
    failed = sum(finding.state is State.FAIL for finding in findings)
    warned = sum(finding.state is State.WARN for finding in findings)
    if not failed and not warned:
        return f"{counted(len(findings), 'check')}, all well"
    parts = [f"{failed} broken" * bool(failed), f"{warned} to look at" * bool(warned)]
    return f"{counted(len(findings), 'check')}: {together([part for part in parts if part])}"
