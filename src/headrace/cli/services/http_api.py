"""`headrace http start`: runs the HTTP API in the foreground."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.connection import Bootstrap, bootstrap_address
from headrace.cli.support.http_service import (
    InsecureListener,
    TlsConfig,
    check_registry,
    listen_address,
    listener_tls,
    listening,
)

app = typer.Typer(no_args_is_help=True, help="The HTTP API.")
_DEFAULT_PORT: Final = 8082


@app.callback()
def http() -> None:
    """The HTTP API: produce, read and administer over HTTP, as with Confluent's REST Proxy."""


@app.command()
def start(
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT. Port 0 takes a free one. Beyond this machine: see docs/http.md.")
    ] = f"127.0.0.1:{_DEFAULT_PORT}",
    bootstrap: Bootstrap = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="The schema registry for Avro, JSON Schema, Protobuf."),
    ] = None,
    tls_config: TlsConfig = None,
    insecure_listener: InsecureListener = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for brokers.")] = 30.0,
) -> None:
    """Run the HTTP API until SIGTERM or Ctrl-C. It acts as the user of each request.

    $ headrace http start --listen 127.0.0.1:8082 --bootstrap 127.0.0.1:9092
    """
    from headrace.http.service import HttpService, http_server
    from headrace.telemetry import set_up_logging
    from headrace.web.login import Brokers

    brokers = Brokers.from_settings(bootstrap_address(bootstrap), client_settings(bootstrap))
    if registry is not None:
        check_registry(registry, brokers)
    tls = listener_tls(tls_config)
    address = listen_address(
        listen,
        "the HTTP API",
        has_tls=tls is not None,
        has_login=brokers.need_login,
        is_insecure_allowed=insecure_listener,
    )
    set_up_logging("INFO")
    service = HttpService(brokers, registry=registry, timeout_s=timeout)
    server = http_server(
        listening(address), service, ready=lambda url: print(f"HTTP API ready on {url}", flush=True), tls=tls
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
