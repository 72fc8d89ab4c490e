"""A console in this process, on its own thread and event loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from headrace.console.server import console_server
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers


@contextmanager
def console_of(settings: ConsoleSettings) -> Iterator[str]:
    """The URL of a running console with these settings."""
    ready: Future[str] = Future()
    server = console_server(bound_socket(ListenAddress("127.0.0.1", 0)), settings, ready.set_result)
    thread = threading.Thread(target=server.serve_forever, name="console", daemon=True)
    thread.start()
    try:
        yield ready.result(30)
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def console_on(bootstrap: str, registry: str | None = None) -> Iterator[str]:
    with console_of(ConsoleSettings((ClusterAddress("local", Brokers(bootstrap), registry),))) as url:
        yield url
