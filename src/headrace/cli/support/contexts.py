"""Named clusters for commands: the contexts of `client.contexts`, with errors as commands print them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.client import contexts
from headrace.client.contexts import Contexts, save

__all__ = ["Contexts", "address_of", "command_config_of", "load", "registry_of", "save"]


@contextmanager
def _printed() -> Iterator[None]:
    try:
        yield
    except contexts.ContextError as error:
        raise Failed(str(error)) from error


def load() -> Contexts:
    """Raises Failed with the place of an error."""
    with _printed():
        return contexts.load()


def command_config_of(given: str | None) -> str | None:
    """The client settings file of the context that the user named, or of the current context."""
    with _printed():
        return contexts.command_config_of(given)


def registry_of(given: str | None) -> str | None:
    """The schema registry of the context that the user named, or of the current context."""
    with _printed():
        return contexts.registry_of(given)


def address_of(given: str | None) -> str:
    """The bootstrap address for an address, the name of a context, or nothing."""
    with _printed():
        return contexts.address_of(given)
