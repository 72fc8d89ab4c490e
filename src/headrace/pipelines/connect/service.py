"""Kafka Connect's REST interface as an HTTP service: routes behind the guard against web pages, login and rights.

A connector acts with the credentials of the worker, and its configuration may have passwords. So a caller needs the
right to alter the cluster, for every request but `GET /`. The brokers verify the caller's login and answer which rights
it has. Brokers without login accept every caller; then the service must stay on loopback (see `web.address`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.client.cluster_client import ClusterClient
from headrace.config import is_loopback
from headrace.pipelines.connect.routes import ConnectRoutes
from headrace.pipelines.connect.worker import Worker
from headrace.web.browser_guard import BrowserGuard
from headrace.web.connections import LoginRequired, PerCaller, logged_in_client
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import FORBIDDEN, HANDLERS, Problem
from headrace.web.listener import WebServer
from headrace.web.login import Brokers, Caller, Login
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.web.tls import HttpTls

# AclOperation.ALTER in the bits of cluster_authorized_operations.
_ALTER_BIT: Final = 1 << 7
_TIMEOUT_S: Final = 30.0


class ConnectService:
    """Owned by the event loop."""

    def __init__(self, brokers: Brokers, worker: Worker) -> None:
        self.brokers, self.worker = brokers, worker
        self.clients = PerCaller(self._client)
        self.tokens = DelegationTokens(brokers, timeout_s=_TIMEOUT_S) if brokers.own is not None else None

    async def _client(self, caller: Caller) -> ClusterClient:
        return await logged_in_client(self.brokers, caller, client_id="headrace-connect", timeout_s=_TIMEOUT_S)

    async def cluster_id(self) -> str:
        client = ClusterClient(self.brokers.bootstrap, client_id="headrace-connect", security=self.brokers.own)
        try:
            answer = await client.request(ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": False})
            return str(answer.cluster_id)
        finally:
            await client.close()

    async def check_right(self, caller: Caller) -> None:
        if not self.brokers.need_login:
            return
        async with self.clients.lease(caller) as client:
            answer = await client.request(ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True})
        allowed = int(answer.cluster_authorized_operations)
        if allowed >= 0 and not allowed & _ALTER_BIT:
            raise Problem(*FORBIDDEN, f"{caller.principal} needs the right ALTER on the cluster to drive connectors")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.worker.start)
        try:
            yield
        finally:
            await asyncio.to_thread(self.worker.close)
            await self.clients.close()
            if self.tokens is not None:
                await self.tokens.close()


def connect_server(
    listener: socket.socket, service: ConnectService, *, ready: Callable[[str], None], tls: HttpTls | None = None
) -> WebServer:
    host, port = listener.getsockname()[:2]
    app = _application(service, f"{host}:{port}", is_on_loopback=is_loopback(host), tls=tls)
    return WebServer(listener, app, ready=ready, tls=tls, life=service.running())


def _application(service: ConnectService, worker_id: str, *, is_on_loopback: bool, tls: HttpTls | None) -> ASGIApp:
    def guarded(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def called(request: Request) -> Response:
            if request.url.path != "/":
                await service.check_right(request.state.caller)
            return await handler(request)

        return called

    routes = ConnectRoutes(service.worker, worker_id, service.cluster_id).routes()
    app = Starlette(
        routes=[Route(route.path, guarded(route.endpoint), methods=sorted(route.methods or ())) for route in routes],
        exception_handlers=HANDLERS,
    )
    app.router.redirect_slashes = False
    login = Login(service.brokers, tls=tls, tokens=service.tokens)
    required = LoginRequired(app, login=login, clients=service.clients)
    return BrowserGuard(required, is_on_loopback=is_on_loopback)
