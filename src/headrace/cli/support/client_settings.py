"""How a command proves itself to a cluster: Kafka's client settings, from a properties file.

The file is that of `--command-config`, else of $HEADRACE_COMMAND_CONFIG, else of the context whose cluster is asked.
Every command that takes `--bootstrap` takes `--command-config` (`add_option`).
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
    """The option of the command that runs. A process runs one command at a time."""

    file: str | None = None


def add_option(command: Any) -> None:
    """Gives `--command-config` to a command, and to those below it, that take `--bootstrap` and lack it."""
    for inner in getattr(command, "commands", {}).values():
        add_option(inner)
    names = {parameter.name for parameter in command.params}
    if "bootstrap" in names and "command_config" not in names:
        command.params.append(_option())


def _remember(value: str | None) -> None:
    _Given.file = value


def _option() -> Any:
    """As typer makes it for a command that declares it."""
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
    """The settings for the cluster that `where` names (an address, a context or nothing); empty without a file."""
    file = _Given.file or os.environ.get(_ENVIRONMENT) or command_config_of(where)
    if not file:
        return {}
    from headrace.config.properties import read_properties

    try:
        return read_properties(Path(file).expanduser())
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


def client_security(where: str | None) -> ClientSecurity | None:
    """None for plain text. Raises a Fault for settings that cannot be used."""
    return security_in(client_settings(where))


def security_in(settings: Mapping[str, str]) -> ClientSecurity | None:
    if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None
    from headrace.client.security import ClientSecurity

    return ClientSecurity.from_settings(settings)


def librdkafka_settings(where: str | None) -> dict[str, str]:
    """The same for a client of librdkafka."""
    from headrace.cli.kafka_tools.support.librdkafka import security_settings

    return security_settings(client_settings(where))
