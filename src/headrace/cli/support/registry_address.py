"""Which schema registry a command uses: the one of its option, else of the context, else the one of this machine."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headrace.cli.support.contexts import registry_of
from headrace.client.cluster_client import parse_bootstrap
from headrace.config import is_loopback

LOCAL_REGISTRY: Final = "http://127.0.0.1:8081"
# `--registry none`: the command decodes nothing.
NO_REGISTRY: Final = "none"

Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        "-r",
        envvar="HEADRACE_REGISTRY",
        metavar="URL",
        help=f"Address of the schema registry. Without it: the one of the context, or {LOCAL_REGISTRY}.",
    ),
]


def registry_address(given: str | None, where: str | None = None) -> str:
    """`where`: the address or the context of the brokers, as the user gave it."""
    return given or registry_of(where) or LOCAL_REGISTRY


def is_on_this_machine(bootstrap: str) -> bool:
    """Whether every broker of an address is on this machine. Then its schema registry may be here, too."""
    return all(is_loopback(host) for host, _ in parse_bootstrap(bootstrap))
