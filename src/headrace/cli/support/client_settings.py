"""Kafka's client settings of a command (TLS, SASL), from a properties file.

The file comes from `--command-config`, else from $HEADRACE_COMMAND_CONFIG, else from the context of the cluster.
Every command that takes `--bootstrap` or `--registry` takes `--command-config` (`add_option`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.cli.support.contexts import command_config_of

if TYPE_CHECKING:
    from headrace.client.security import ClientSecurity

_ENVIRONMENT: Final = "HEADRACE_COMMAND_CONFIG"


class _Given:
    """The option of the running command. A process runs one command at a time."""

    file: str | None = None


def add_option(command: Any) -> None:
    """Adds `--command-config` to a command and its subcommands if they take an address of a server and lack it."""
    for inner in getattr(command, "commands", {}).values():
        add_option(inner)
    names = {parameter.name for parameter in command.params}
    if {"bootstrap", "registry"} & names and "command_config" not in names:
        command.params.append(_option())


def _remember(value: str | None) -> None:
    _Given.file = value


def _option() -> Any:
    """The option as typer creates it for a command that declares it."""
    declared = typer.Typer(add_completion=False)

    @declared.command()
    def command(
        command_config: Annotated[
            str | None,
            typer.Option(
                "--command-config",
                metavar="FILE",
                help="A properties file with client settings: TLS, SASL.",
                callback=_remember,
                expose_value=False,
            ),
        ] = None,
    ) -> None: ...

    return typer.main.get_command(declared).params[0]


def client_settings(where: str | None) -> dict[str, str]:
    """Settings for the cluster that `where` names (an address, a context or nothing); empty without a file."""
    file = _Given.file or os.environ.get(_ENVIRONMENT) or command_config_of(where)
    if not file:
        return {}
    from headrace.config.properties import read_properties

    try:
        return read_properties(Path(file).expanduser())
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


def client_security(where: str | None) -> ClientSecurity | None:
    """TLS and SASL of the client; None for plain text. Raises a Fault for invalid settings."""
    return security_in(client_settings(where))


def security_in(settings: Mapping[str, str]) -> ClientSecurity | None:
    if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None
    from headrace.client.security import ClientSecurity

    return ClientSecurity.from_settings(settings)


def librdkafka_settings(where: str | None) -> dict[str, str]:
    """The same settings for librdkafka."""
    from headrace.client.librdkafka_security import security_settings

    return security_settings(client_settings(where))
