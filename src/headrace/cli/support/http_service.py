"""Options of the commands that start an HTTP service: registry, HTTP API, console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed

if TYPE_CHECKING:
    import socket

    from headrace.web.address import ListenAddress
    from headrace.web.login import Brokers
    from headrace.web.tls import HttpTls

TlsConfig = Annotated[
    Path | None,
    typer.Option(
        "--tls-config",
        metavar="FILE",
        help="A properties file with the ssl.* keys of the listener, as brokers have them. Turns on HTTPS.",
    ),
]
InsecureListener = Annotated[
    bool,
    typer.Option(
        "--insecure-listener", help="Open an address beyond this machine although it lacks encryption or login."
    ),
]


def listen_address(
    text: str,
    service: str,
    *,
    has_tls: bool = False,
    has_login: bool = False,
    is_insecure_allowed: bool = False,
) -> ListenAddress:
    """The checked `--listen`."""
    from headrace.web.address import BadAddress, ListenAddress

    try:
        address = ListenAddress.parse(text)
        address.check(service, has_tls=has_tls, has_login=has_login, is_insecure_allowed=is_insecure_allowed)
    except BadAddress as bad:
        raise typer.BadParameter(str(bad)) from None
    return address


def listening(address: ListenAddress) -> socket.socket:
    from headrace.web.listener import bound_socket

    try:
        return bound_socket(address)
    except OSError as error:
        raise Failed(f"--listen {address}: {error.strerror}") from error


def listener_tls(file: Path | None) -> HttpTls | None:
    """TLS of the listener from `--tls-config`; None without a file."""
    if file is None:
        return None
    from headrace.config import ConfigError
    from headrace.config.properties import read_properties
    from headrace.web.tls import HttpTls

    try:
        return HttpTls(read_properties(file))
    except OSError as error:
        raise Failed(f"--tls-config {file}: {error.strerror}") from error
    except ConfigError as error:
        raise Failed(f"--tls-config {file}: {error}") from error


def check_registry(url: str, brokers: Brokers) -> None:
    """Checks `--registry` of a service that asks the registry as its callers."""
    from headrace.serialization.registry_login import check_registry_url

    try:
        check_registry_url(url, brokers.security)
    except ValueError as bad:
        raise typer.BadParameter(str(bad)) from None
