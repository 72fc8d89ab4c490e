"""`headrace pipeline ls` and `status`: what the flows of a cluster report."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Final

import typer

from headrace.cli.support.connection import Bootstrap, Output, bootstrap_address
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import (
    CommandConfig,
    one_sentence,
    security_for,
)

_NO_FLOWS: Final = "no pipeline has reported to this cluster yet"


def list_pipelines(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, output: Output = Format.TABLE
) -> None:
    """List every flow that has reported to this cluster.

    $ headrace pipeline ls

    $ headrace pipeline ls -o json
    """
    with one_sentence():
        from headrace.pipelines.flows.progress import describe, read_progress

        flows = read_progress(bootstrap_address(bootstrap), security_for(command_config))
        found = [progress for _, progress in sorted(flows.items())]
        if output is not Format.TABLE:
            show(found, output)
            return
        for progress in found:
            typer.echo(describe(progress))
        if not found:
            typer.echo(_NO_FLOWS)


def status(
    name: Annotated[str | None, typer.Argument(help="Show only this pipeline.")] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the table until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show rate, lag, batch time, state and last error of every flow.

    $ headrace pipeline status shout

    $ headrace pipeline status -o yaml
    """
    address = bootstrap_address(bootstrap)
    with one_sentence():
        from headrace.pipelines.flows.progress import read_progress
        from headrace.pipelines.flows.status_screen import rows_of, screen_of

        security = security_for(command_config)

        def flows() -> list[dict[str, object]]:
            found = sorted(read_progress(address, security).items())
            return [progress for _, progress in found if name in (None, progress["pipeline"])]

        if output is not Format.TABLE:
            show(flows(), output)
            return
        if as_json:
            for progress in flows():
                typer.echo(json.dumps(progress))
            return
        if not watch:
            show(rows_of(flows()), output, empty=_NO_FLOWS)
            return
        try:
            while not sys.stdout.isatty():
                show(rows_of(flows()), output, empty=_NO_FLOWS)
                print(flush=True)
                time.sleep(1)
            from rich.live import Live

            with Live(refresh_per_second=2) as live:
                while True:
                    size = live.console.size
                    live.update(screen_of(flows(), size.width, size.height - 1))
                    time.sleep(1)
        except KeyboardInterrupt:
            sys.exit(0)
