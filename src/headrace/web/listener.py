"""Runs an HTTP service with uvicorn on a socket that is bound first: other instances may need its address.

    server = WebServer(bound_socket(address), app, tls=None, ready=print, life=store.running)
    server.serve_forever()

The first SIGTERM or Ctrl-C stops the server cleanly: it finishes open requests for up to five seconds. A second signal
does not wait for them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
import uvloop
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.web.address import ListenAddress

if TYPE_CHECKING:
    from headrace.web.tls import HttpTls

CERTIFICATE: Final = "client_certificate"
"""Key of the caller's certificate (DER) in the state of a request."""
_STOP_S: Final = 5
# As for a login at a broker.
_HEAD_S: Final = 10.0
_LARGEST_HEAD: Final = 64 * 1024
_BACKLOG: Final = 1024


def bound_socket(address: ListenAddress) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket, *, has_tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if has_tls else 'http'}://{ListenAddress(host, port)}"


class _Protocol(HttpToolsProtocol):
    """Adds the client's certificate to the state of its requests, and limits the time and the size of a request's head.

    uvicorn waits for a head without a limit and keeps all of it. A client that has not logged in could hold any number
    of connections and any amount of memory.
    """

    _head_deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._head_deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)
        if self._head_deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _LARGEST_HEAD and not self.transport.is_closing():
                self.send_400_response(f"the head of the request has more than {_LARGEST_HEAD} bytes")

    def on_headers_complete(self) -> None:
        self._forget_deadline()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_deadline = self.loop.call_later(_HEAD_S, self.transport.close)

    def _forget_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own type
        super().connection_made(transport)
        self._await_head()
        encrypted = transport.get_extra_info("ssl_object")
        certificate = None if encrypted is None else encrypted.getpeercert(binary_form=True)
        if certificate is not None:
            self.app_state = {**self.app_state, CERTIFICATE: certificate}


class _Loop(uvloop.Loop):  # type: ignore[misc]  # uvloop has no type for its own class
    """Limits the time of a TLS handshake, which uvicorn does not offer. asyncio waits 60 seconds."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        limit = {} if options.get("ssl") is None else {"ssl_handshake_timeout": _HEAD_S}
        return cast("asyncio.Server", await super().create_server(*args, **options, **limit))


class WebServer(uvicorn.Server):
    """One service on a bound socket. `life` is entered before the first request and left after the last. `ready` gets
    the URL when the service takes requests."""

    def __init__(
        self,
        listener: socket.socket,
        app: ASGIApp,
        *,
        ready: Callable[[str], None],
        tls: HttpTls | None = None,
        life: AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        self.listener = listener
        self.url = url_of(listener, has_tls=tls is not None)
        self._ready = ready
        self._life = life or nullcontext()
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_STOP_S,
                ssl_context_factory=None if tls is None else (lambda *_: tls.context()),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(self.url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    def serve_forever(self) -> None:
        """Serves until a signal. Raises what `life` raises when it cannot start."""
        uvloop.run(self._live(), loop_factory=_Loop)

    async def _live(self) -> None:
        try:
            async with self._life:
                await self.serve(sockets=[self.listener])
        finally:
            self.listener.close()
