"""`headrace doctor`: connects as a client would, and explains what is wrong and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.connecting import Bootstrap, Failed, Output, Timeout, bootstrap_address
from headrace.cli.diagnosis import Finding, Patience, State, examine
from headrace.cli.output import Format, show
from headrace.config import parse_properties

app = typer.Typer()


@app.command()
def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", help="The client's properties: its bootstrap.servers, security.protocol.")
    ] = None,
    watch: Annotated[float, typer.Option("--watch-lag", min=0, help="Seconds to watch whether lag grows.")] = 1.0,
    min_free: Annotated[float, typer.Option("--min-free", min=0, max=100, help="Per cent of a disk to be free.")] = 10,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 5.0,
) -> None:
    """Check addresses, protocol, replicas, groups, lag, disks, strays, clocks. Exits with 1 when something is broken.

    $ headrace doctor

    $ headrace doctor --watch-lag 0.2 --min-free 1 -o json
    """
    settings = {} if config is None else _client_settings(config)
    address = bootstrap_address(bootstrap or settings.get("bootstrap.servers"))
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    findings = asyncio.run(examine(address, Patience(timeout, watch, min_free), protocol=protocol))
    if output is not Format.TABLE:
        show([finding.document() for finding in findings], output)
    else:
        for finding in findings:
            typer.echo(_lines(finding))
        wrong = sum(finding.state is not State.OK for finding in findings)
        typer.echo(
            f"\n{len(findings)} checks, {wrong} with something to do"
            if wrong
            else f"\n{len(findings)} checks, all well"
        )
    raise typer.Exit(1 if any(finding.state is State.FAIL for finding in findings) else 0)


def _client_settings(file: Path) -> dict[str, str]:
    try:
        return dict(parse_properties(file.read_text()))
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


def _lines(finding: Finding) -> str:
    mark = {State.OK: "ok  ", State.WARN: "WARN", State.FAIL: "FAIL"}[finding.state]
    lines = [f"{mark}  {finding.check}: {finding.found}"]
    if finding.remedy:
        lines.append(f"      do: {finding.remedy}")
    return "\n".join(lines)
