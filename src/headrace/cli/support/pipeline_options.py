"""Shared code of the pipeline commands: the pipeline, its brokers and credentials, errors as one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.support.connection import bootstrap_address, key_values
from headrace.cli.support.contexts import address_of
from headrace.client.server_kind import require_broker

if TYPE_CHECKING:
    from headrace.client.blocking.client import BlockingClient
    from headrace.client.security import ClientSecurity
    from headrace.pipelines.flows.spec import PipelineSpec

Directory = Annotated[
    Path, typer.Argument(help="Directory of the pipeline, or YAML file of a connector.", metavar="DIR")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Setting KEY=VALUE that overrides the configuration of the pipeline.")
]
BackendName = Annotated[
    str | None,
    typer.Option("--backend", help="Spark connector: auto, python (no jar) or jvm (Spark's Kafka connector)."),
]
Master = Annotated[str | None, typer.Option(help="Spark master: local[*], spark://…, yarn, k8s://…")]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="A properties file with client settings: TLS, SASL."),
]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Prints an expected error as one line and exits with 1. Any other exception is a bug and keeps its traceback."""
    from headrace.kernel.errors import Fault
    from headrace.pipelines.errors import PipelineError

    try:
        yield
    except (PipelineError, Fault) as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(1) from None


def say(text: str) -> None:
    typer.echo(text, err=True)


def client_settings(file: Path | None) -> dict[str, str]:
    """The settings of `--command-config`."""
    from headrace.config.properties import read_properties
    from headrace.pipelines.errors import OptionError

    if file is None:
        return {}
    try:
        return read_properties(file)
    except OSError as error:
        raise OptionError(f"--command-config {file}: {error.strerror}") from error


def pipeline_spec(
    path: Path, settings: list[str] | None, bootstrap: str | None, command_config: Path | None = None
) -> PipelineSpec:
    """The pipeline from its files and the command line."""
    from headrace.pipelines.brokers import in_configuration
    from headrace.pipelines.connectors.connector import load_pipeline

    given = {**in_configuration(client_settings(command_config)), **key_values(settings, "--set")}
    chosen = address_of(bootstrap) if bootstrap else None
    own = load_pipeline(path).bootstrap
    if chosen and own and chosen != own:
        origin = "HEADRACE_BOOTSTRAP" if os.environ.get("HEADRACE_BOOTSTRAP") == bootstrap else "--bootstrap"
        say(f"brokers: {chosen} of {origin} replaces {own} of {path}")
    return load_pipeline(path, chosen).with_settings(given)


def security_for(command_config: Path | None) -> ClientSecurity:
    from headrace.pipelines.brokers import security_of

    return security_of(client_settings(command_config))


def cluster_client(bootstrap: str | None, command_config: Path | None) -> BlockingClient:
    """A client of the given cluster, else of the current context."""
    from headrace.client.blocking.client import BlockingClient

    client = BlockingClient(bootstrap_address(bootstrap), security=security_for(command_config))
    # Such a client retries for half a minute, which is too long for a user at a prompt.
    require_broker(client.bootstrap, encrypted=client.security.encrypted)
    return client
