"""`headrace registry start`: runs one instance of the schema registry in the foreground."""

from __future__ import annotations

import socket
from typing import Annotated, Final

import typer

from headrace.cli.support.connection import Bootstrap, Failed, bootstrap_address
from headrace.config import is_loopback

app = typer.Typer(no_args_is_help=True, help="The schema registry.")
_DEFAULT_PORT: Final = 8081


@app.callback()
def registry() -> None:
    """The schema registry: schemas with ids, versions and compatibility checks, over HTTP."""


@app.command()
def start(
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT. Port 0 takes a free one. Beyond this machine: http://HOST:PORT.")
    ] = f"127.0.0.1:{_DEFAULT_PORT}",
    bootstrap: Bootstrap = None,
    group: Annotated[str, typer.Option(help="Instances of one group elect the one that writes.")] = "schema-registry",
    topic: Annotated[str, typer.Option(help="The compacted topic that holds the schemas.")] = "_schemas",
    session_timeout_ms: Annotated[
        int, typer.Option(help="Another instance takes over when the leader is silent for this long.")
    ] = 10_000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for brokers and for the leader.")] = 30.0,
) -> None:
    """Run one instance until SIGTERM or Ctrl-C. Clients of Confluent's registry use it unchanged.

    $ headrace registry start --listen 127.0.0.1:8081 --bootstrap 127.0.0.1:9092
    """
    from headrace.registry.app.serving import RegistryServer, identity_of, listening_socket
    from headrace.registry.core.errors import RegistryError
    from headrace.registry.store.election import Identity
    from headrace.registry.store.store import StoreSettings
    from headrace.telemetry import set_up_logging

    host, port = parse_listen(listen)
    set_up_logging("INFO")
    try:
        listener = listening_socket(host, port)
    except OSError as error:
        raise Failed(f"--listen {host}:{port}: {error.strerror}") from error
    identity = identity_of(listener)
    if host in ("0.0.0.0", "::"):
        identity = Identity(socket.getfqdn(), identity.port)
    settings = StoreSettings(bootstrap_address(bootstrap), identity, topic, group, session_timeout_ms, timeout)
    server = RegistryServer(listener, settings, lambda url: print(f"schema registry ready on {url}", flush=True))
    try:
        server.serve_forever()
    except RegistryError as error:
        raise Failed(f"the schema registry cannot start: {error}") from error
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def parse_listen(text: str) -> tuple[str, int]:
    """(host, port). An address beyond this machine must include its protocol, because the connection is not
    encrypted."""
    scheme, named, rest = text.rpartition("://")
    if named and scheme != "http":
        raise typer.BadParameter(f"--listen {text}: must be HOST:PORT or http://HOST:PORT")
    host, _, port = rest.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"--listen {text}: must be HOST:PORT with a port from 0 to 65535")
    if not named and not is_loopback(host):
        raise typer.BadParameter(
            f"--listen {text}: opens the registry to other machines without encryption and login. "
            f"If you want that, use --listen http://{rest}"
        )
    return host, int(port)
