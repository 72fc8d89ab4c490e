"""`headrace top`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.support.client_settings import client_security
from headrace.cli.support.connection import Bootstrap, Failed, Timeout, bootstrap_address

app = typer.Typer(help="Watch a cluster in a full-screen view.")


@app.command()
def top(
    bootstrap: Bootstrap = None,
    every: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between refreshes.")] = 2.0,
    timeout: Timeout = 10.0,
) -> None:
    """Watch brokers, topics, groups and pipelines in a full-screen view. `?` lists the keys.

    $ headrace top --every 1
    """
    address, security = bootstrap_address(bootstrap), client_security(bootstrap)
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise Failed(
            "top needs a terminal. For programs: headrace cluster status -o json, headrace groups lag -o json, "
            "headrace pipeline status -o json"
        )
    from headrace.cli.top.screen import TopScreen
    from headrace.cli.top.snapshot import Watch

    view = TopScreen(Watch(address, security, timeout), every)
    view.run()
    if view.fault:
        raise Failed(view.fault)
