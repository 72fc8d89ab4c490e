"""`headrace registry start`: runs one instance of the schema registry in the foreground."""

from __future__ import annotations

import importlib.util
import socket
from typing import Annotated, Final

import typer

from headrace.cli.support.client_settings import client_settings, security_in
from headrace.cli.support.connection import Bootstrap, Failed, bootstrap_address
from headrace.cli.support.http_service import InsecureListener, TlsConfig, listen_address, listener_tls, listening
from headrace.kernel import parent_process

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
    xml_schemas: Annotated[
        bool, typer.Option("--xml-schemas", help="Also accept XML Schema. Needs the extra 'xml'.")
    ] = False,
    tls_config: TlsConfig = None,
    insecure_listener: InsecureListener = False,
    stop_with_input: Annotated[
        bool, typer.Option(parent_process.OPTION, hidden=True, help="Stop at the end of standard input.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for brokers and for the leader.")] = 30.0,
) -> None:
    """Run one instance until SIGTERM or Ctrl-C. Clients of Confluent's registry use it unchanged.

    $ headrace registry start --listen 127.0.0.1:8081 --bootstrap 127.0.0.1:9092
    """
    from headrace.registry.app.serving import RegistryServer, identity_of
    from headrace.registry.core.content import XML
    from headrace.registry.core.errors import RegistryError
    from headrace.registry.core.schema_types import USUAL_TYPES
    from headrace.registry.store.election import Identity
    from headrace.registry.store.store import StoreSettings
    from headrace.telemetry import set_up_logging
    from headrace.web.login import Brokers

    if xml_schemas and importlib.util.find_spec("xmlschema") is None:
        raise Failed("--xml-schemas needs the library xmlschema: install headrace[xml]")
    client = client_settings(bootstrap)
    brokers, tls = Brokers.from_settings(bootstrap_address(bootstrap), client), listener_tls(tls_config)
    address = listen_address(
        listen,
        "the registry",
        has_tls=tls is not None,
        has_login=brokers.need_login,
        is_insecure_allowed=insecure_listener,
    )
    set_up_logging("INFO")
    listener = listening(address)
    identity = identity_of(listener, "http" if tls is None else "https")
    if address.host in ("0.0.0.0", "::"):
        identity = Identity(socket.getfqdn(), identity.port, identity.scheme)
    settings = StoreSettings(
        bootstrap_address(bootstrap), identity, topic, group, session_timeout_ms, timeout, security_in(client),
        types=(*USUAL_TYPES, XML) if xml_schemas else USUAL_TYPES,
    )  # fmt: skip
    server = RegistryServer(
        listener,
        settings,
        lambda url: print(f"schema registry ready on {url}", flush=True),
        brokers=brokers,
        tls=tls,
    )
    if stop_with_input:
        parent_process.stop_with_input()
    try:
        server.serve_forever()
    except RegistryError as error:
        raise Failed(f"the schema registry cannot start: {error}") from error
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
