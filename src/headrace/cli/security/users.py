"""`headrace security add-user`: the first users of a cluster, without a running broker."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Failed, key_values
from headrace.cli.support.output import Format
from headrace.config.secrets import check_private


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


def add_user(
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    file: Annotated[
        Path | None, typer.Argument(help="Properties file of the broker.", exists=True, dir_okay=False)
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Log directory of the broker.")] = None,
    mechanism: Annotated[
        list[Mechanism] | None, typer.Option("--mechanism", help="SCRAM mechanism; repeatable. Default: both.")
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", help="Iterations of the password hash.")] = 4096,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="File whose first line is the password.", exists=True, dir_okay=False),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Setting KEY=VALUE of the broker, for example zookeeper.connect.")
    ] = None,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Output format: table, json or yaml.")
    ] = Format.TABLE,
) -> None:
    """Add a user with a SCRAM password, or change its password, while no broker of the cluster runs.

    Use it for the first users. While a broker runs, use kafka-configs.sh. The command asks for the password; if
    standard input is not a terminal, it reads the first line.

    $ headrace security add-user admin --data data --password-file admin.password

    $ headrace security add-user admin server.properties
    """
    from headrace.broker.first_users import write_users
    from headrace.client.scram_users import BadUser, scram_user
    from headrace.config import ConfigError, load_broker_config, read_properties
    from headrace.kernel.errors import Fault

    settings = read_properties(file) if file is not None else {}
    if data is not None:
        settings["log.dirs"] = str(data)
    try:
        config = load_broker_config({**settings, **key_values(setting, "--set")})
        password = _password(password_file)
        users = [scram_user(name, one.value, password, iterations) for one in mechanism or list(Mechanism)]
        asyncio.run(write_users(config, users))
    except (BadUser, ConfigError) as wrong:
        raise Failed(str(wrong)) from wrong
    except Fault as fault:
        raise Failed(fault.message) from fault
    used = [user.mechanism for user in users]
    report_one({"user": name, "mechanisms": used}, output, f"added user {name} with {' and '.join(used)}")


def _password(file: Path | None) -> str:
    if file is not None:
        check_private(file, "--password-file", str(file))
        return (file.read_text().splitlines() or [""])[0]
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\n")
