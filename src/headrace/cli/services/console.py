"""`headrace console start`: the web console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.support import contexts
from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.connection import Bootstrap, Failed, bootstrap_address
from headrace.cli.support.http_service import check_registry
from headrace.kernel import parent_process

if TYPE_CHECKING:
    from headrace.console.settings import ClusterAddress

app = typer.Typer(no_args_is_help=True, help="The web console.")
_DEFAULT_PORT: Final = 8080


@app.callback()
def console() -> None:
    """The web console: topics, messages, groups and pipelines in a browser."""


@app.command()
def start(
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT. Port 0 takes a free one. Other machines need TLS and login.")
    ] = f"127.0.0.1:{_DEFAULT_PORT}",
    bootstrap: Bootstrap = None,
    registry: Annotated[str | None, typer.Option("--registry", help="URL of the schema registry.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    hide_values: Annotated[
        bool, typer.Option("--hide-values", help="Do not show keys, values and headers of records.")
    ] = False,
    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", help="Hide a field: TOPIC:FIELD.FIELD, for example *:card.number. You can repeat it."),
    ] = None,
    tls_config: Annotated[
        Path | None,
        typer.Option("--tls-config", help="A properties file with the certificate (ssl.* keys of brokers)."),
    ] = None,
    oidc_config: Annotated[
        Path | None,
        typer.Option(
            "--oidc-config",
            help="A properties file with issuer, client.id, client.secret and scope of an OpenID provider.",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure-listener", help="Serve other machines without TLS and login.")
    ] = False,
    stop_with_input: Annotated[
        bool, typer.Option(parent_process.OPTION, hidden=True, help="Stop at the end of standard input.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for brokers.")] = 10.0,
) -> None:
    """Run the console until SIGTERM or Ctrl-C. Without --bootstrap it serves all clusters of `headrace context`.

    $ headrace console start --listen 127.0.0.1:8080 --bootstrap 127.0.0.1:9092
    """
    from headrace.console.core.masking import Mask
    from headrace.console.login.oidc import OidcClient
    from headrace.console.server import console_server
    from headrace.console.settings import ConsoleSettings
    from headrace.telemetry import set_up_logging
    from headrace.web.address import BadAddress, ListenAddress
    from headrace.web.listener import bound_socket
    from headrace.web.tls import HttpTls

    try:
        address = ListenAddress.parse(listen)
        masks = tuple(Mask.parse(text) for text in mask or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    clusters = _clusters(bootstrap, registry)
    tls = None if tls_config is None else HttpTls(_properties(tls_config))
    has_login = all(cluster.brokers.need_login for cluster in clusters)
    try:
        address.check("the console", has_tls=tls is not None, has_login=has_login, is_insecure_allowed=insecure)
    except BadAddress as error:
        raise typer.BadParameter(str(error)) from error
    oidc = None
    if oidc_config is not None:
        try:
            oidc = OidcClient.from_settings(_properties(oidc_config))
        except ValueError as error:
            raise Failed(f"--oidc-config {oidc_config}: {error}") from error
    settings = ConsoleSettings(
        clusters,
        read_only=read_only,
        hides_values=hide_values,
        masks=masks,
        timeout_s=timeout,
        oidc=oidc,
        examines=True,
    )
    set_up_logging("INFO")
    try:
        listener = bound_socket(address)
    except OSError as error:
        raise Failed(f"--listen {address}: {error.strerror}") from error
    if stop_with_input:
        parent_process.stop_with_input()
    try:
        console_server(listener, settings, _announce, tls).serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _announce(url: str) -> None:
    print(f"console ready on {url}", flush=True)


def _properties(file: Path) -> dict[str, str]:
    from headrace.config.properties import read_properties

    try:
        return read_properties(file)
    except OSError as error:
        raise Failed(f"cannot read {file}: {error.strerror}") from error


def _clusters(bootstrap: str | None, registry: str | None) -> tuple[ClusterAddress, ...]:
    """The cluster that the user named, or all contexts with the current one first."""
    from headrace.console.settings import ClusterAddress
    from headrace.web.login import Brokers

    def cluster(name: str, where: str | None) -> ClusterAddress:
        brokers = Brokers.from_settings(bootstrap_address(where), client_settings(where))
        if registry is not None:
            check_registry(registry, brokers)
        return ClusterAddress(name, brokers, registry)

    known = contexts.load()
    if bootstrap is None and known.addresses:
        current = known.current or next(iter(known.addresses))
        names = sorted(known.addresses, key=lambda name: (name != current, name))
        return tuple(cluster(name, name) for name in names)
    return (cluster(bootstrap if bootstrap is not None and bootstrap in known.addresses else "local", bootstrap),)
