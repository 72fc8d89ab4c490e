"""`headrace context ls|use|add|rm`: named clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Failed, Output, Yes, sure
from headrace.cli.support.contexts import load, save
from headrace.cli.support.output import Format, show
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import parse_bootstrap

app = typer.Typer(no_args_is_help=True, help="Named clusters to switch between.")


def complete_context(incomplete: str) -> list[str]:
    return [name for name in load().addresses if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of the context.", autocompletion=complete_context)]


@app.command("ls")
def ls(output: Output = Format.TABLE) -> None:
    """List the contexts; the current one is marked.

    $ headrace context ls
    """
    contexts = load()
    rows = [
        {"name": name, "bootstrap": address, "current": name == contexts.current}
        for name, address in sorted(contexts.addresses.items())
    ]
    if output is Format.TABLE:
        rows = [{**row, "current": "*" if row["current"] else ""} for row in rows]
    show(rows, output, empty="no contexts yet: headrace context add NAME HOST:PORT")


@app.command()
def add(
    name: Name,
    bootstrap: Annotated[str, typer.Argument(help="Addresses of brokers: host:port,host:port")],
    command_config: Annotated[
        Path | None, typer.Option("--command-config", metavar="FILE", help="Client settings of the cluster: TLS, SASL.")
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="Schema registry of the cluster.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a context, or change its address. The first context becomes the current one.

    $ headrace context add local 127.0.0.1:9092 --registry http://127.0.0.1:8081
    """
    if ":" in name or "," in name or not name.strip():
        raise typer.BadParameter(f"name {name!r}: must not contain ':' or ',', which belong to addresses")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    contexts = load()
    contexts.addresses[name] = bootstrap
    contexts.command_configs.pop(name, None)
    contexts.registries.pop(name, None)
    if registry is not None:
        contexts.registries[name] = registry
    if command_config is not None:
        if not command_config.is_file():
            raise typer.BadParameter(f"--command-config {command_config}: there is no such file")
        contexts.command_configs[name] = str(command_config.absolute())
    contexts.current = contexts.current or name
    save(contexts)
    row = {"name": name, "bootstrap": bootstrap, "current": contexts.current == name, "done": True}
    report_one(row, output, f"{name} is {bootstrap}")


@app.command()
def use(name: Name, output: Output = Format.TABLE) -> None:
    """Make a context the current one.

    $ headrace context use local
    """
    contexts = load()
    if name not in contexts.addresses:
        raise Failed(f"context {name!r} does not exist.{nearest(name, contexts.addresses)}")
    contexts.current = name
    save(contexts)
    row = {"name": name, "bootstrap": contexts.addresses[name], "current": True, "done": True}
    report_one(row, output, f"now using {name} ({row['bootstrap']})")


@app.command()
def rm(name: Name, yes: Yes = False, output: Output = Format.TABLE) -> None:
    """Remove a context. The cluster does not change.

    $ headrace context rm local --yes
    """
    contexts = load()
    if name not in contexts.addresses:
        raise Failed(f"context {name!r} does not exist.{nearest(name, contexts.addresses)}")
    sure(f"Forget the context {name} ({contexts.addresses[name]})?", yes)
    row = {"name": name, "bootstrap": contexts.addresses.pop(name), "current": False, "done": True}
    if contexts.current == name:
        contexts.current = None
    save(contexts)
    report_one(row, output, f"forgot {name} ({row['bootstrap']})")
