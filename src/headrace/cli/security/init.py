"""`headrace security init`: certificates, an administrator and the settings of a secured cluster in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Failed
from headrace.cli.support.output import Format
from headrace.kernel.plurals import counted
from headrace.security.setup import BROKERS_PORT, CLIENTS_PORT, SecureSetup, make_setup
from headrace.security.tls.authority import CannotIssue


def init(
    directory: Annotated[Path, typer.Argument(help="A new or empty directory for the files.")] = Path("security"),
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=100, help="Number of brokers.")] = 1,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Host name or address of the brokers. Repeatable.", show_default="localhost"),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65435, help="Port of the first broker; the others use the next ports.")
    ] = CLIENTS_PORT,
    inter_broker_port: Annotated[
        int, typer.Option("--inter-broker-port", min=1, max=65435, help="The same for connections between brokers.")
    ] = BROKERS_PORT,
    admin: Annotated[str, typer.Option("--admin", help="Name of the administrator.")] = "admin",
    output: Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")] = Format.TABLE,
) -> None:
    """Make a certificate authority, certificates, an administrator and the settings of brokers and clients.

    The command shows the administrator's password once. The file client.properties has it, too.

    $ headrace security init security

    $ headrace security init security --brokers 3 --host kafka.example.com --host 10.0.0.5
    """
    hosts = tuple(host) if host else ("localhost", "127.0.0.1")
    try:
        setup = make_setup(
            directory, brokers=brokers, hosts=hosts, admin=admin, port=port, inter_broker_port=inter_broker_port
        )
    except CannotIssue as error:
        raise Failed(str(error)) from None
    row = {
        "directory": str(setup.directory),
        "brokers": brokers,
        "hosts": list(hosts),
        "admin": setup.admin,
        "password": setup.password,
    }
    report_one(row, output, _explanation(setup))


def _explanation(setup: SecureSetup) -> str:
    where = setup.directory
    return "\n".join(
        [
            f"made a certificate authority, certificates for {counted(setup.brokers, 'broker')} and the administrator "
            f"{setup.admin} in {where}",
            "",
            f"  password of {setup.admin}:  {setup.password}   (shown once; client.properties has it, too)",
            "",
            "Start a broker that knows the administrator:",
            f"  headrace security add-user {setup.admin} {setup.broker_properties(1)} --data data --password-file "
            f"{setup.password_file}",
            f"  headrace start {setup.broker_properties(1)} --data data",
            "Use it:",
            f"  headrace topics ls -b {setup.bootstrap} --command-config {setup.client_properties}",
            f"  kcat -b {setup.bootstrap} -F {setup.librdkafka_properties} -L",
        ]
    )
