"""Runs the application with uvicorn. It listens on loopback unless another address is given."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
import uvloop

from headrace.registry.app.application import application
from headrace.registry.store.election import Identity
from headrace.registry.store.store import SchemaStore, StoreSettings


def listening_socket(host: str, port: int) -> socket.socket:
    """Binds the socket first, because other instances need its address to forward writes. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


class RegistryServer(uvicorn.Server):
    """One instance of the registry on a bound socket. It calls `ready` with its URL when it serves requests."""

    def __init__(self, listener: socket.socket, settings: StoreSettings, ready: Callable[[str], None]) -> None:
        self.listener = listener
        self.store = SchemaStore(settings)
        self._ready = ready
        super().__init__(
            uvicorn.Config(
                application(self.store),
                loop="uvloop",
                http="httptools",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(self.store.settings.identity.url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal stops the server cleanly with exit code 0. A second one does not wait for open requests."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def serve_forever(self) -> None:
        """Serves until SIGTERM or Ctrl-C. Raises Fault or RegistryError if it cannot start."""
        uvloop.run(self._live())

    async def _live(self) -> None:
        """The store starts first, because a registry that has not read its topic would report missing subjects."""
        try:
            await self.store.start()
            await self.serve(sockets=[self.listener])
        finally:
            await self.store.stop()
            self.listener.close()


def identity_of(listener: socket.socket) -> Identity:
    host, port = listener.getsockname()[:2]
    return Identity(host, port)
