"""`headrace doctor`: connects as a client would, and explains what is wrong and what to do."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from headrace.cli.connecting import Bootstrap, Output, Timeout, bootstrap_address
from headrace.cli.diagnosis import Finding, State, examine
from headrace.cli.output import Format, show

app = typer.Typer()


@app.command()
def doctor(
    watch: Annotated[float, typer.Option("--watch-lag", min=0, help="Seconds to watch whether lag grows.")] = 1.0,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 5.0,
) -> None:
    """Check addresses, protocol, replicas, groups, lag, disks and clocks. Exits with 1 when something is broken.

    $ headrace doctor

    $ headrace doctor --watch-lag 0.2 -o json
    """
    findings = asyncio.run(examine(bootstrap_address(bootstrap), timeout=timeout, watch_s=watch))
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


def _lines(finding: Finding) -> str:
    mark = {State.OK: "ok  ", State.WARN: "WARN", State.FAIL: "FAIL"}[finding.state]
    lines = [f"{mark}  {finding.check}: {finding.found}"]
    if finding.remedy:
        lines.append(f"      do: {finding.remedy}")
    return "\n".join(lines)
