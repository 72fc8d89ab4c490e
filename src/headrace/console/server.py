"""Runs the console on a bound socket until SIGTERM or Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.config import is_loopback
from headrace.console.application import Console, application
from headrace.console.settings import ConsoleSettings
from headrace.web.listener import WebServer

if TYPE_CHECKING:
    from headrace.web.tls import HttpTls


def console_server(
    listener: socket.socket, settings: ConsoleSettings, ready: Callable[[str], None], tls: HttpTls | None = None
) -> WebServer:
    """`ready` gets the URL when the console takes requests."""
    console = Console(settings, tls)
    app = application(console, is_on_loopback=is_loopback(listener.getsockname()[0]))
    return WebServer(listener, app, ready=ready, tls=tls, life=console.running())
