"""What the endpoints share, and the application with its guards.

A request passes the guard against foreign web pages, then the login, then its endpoint. The service holds three things
for each caller: a client for short requests, a producer, and a view of the schema registry.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.client.cluster_client import ClusterClient
from headrace.config import is_loopback
from headrace.http import openapi
from headrace.http.call import Call, as_json
from headrace.http.endpoint import Endpoint
from headrace.http.records.produce import TopicProducer
from headrace.http.records.schemas import Schemas
from headrace.http.v2 import consumers, partition_read
from headrace.http.v2 import produce as v2_produce
from headrace.http.v2 import topics as v2_topics
from headrace.http.v2.instances import ConsumerInstances
from headrace.http.v3 import acls, clusters, configs, groups, partitions, records, topics
from headrace.kernel.errors import ErrorCode, Refused
from headrace.web.browser_guard import BrowserGuard
from headrace.web.connections import LoginRequired, PerCaller, logged_in_client
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import HANDLERS, Problem
from headrace.web.listener import WebServer
from headrace.web.login import Brokers, Caller, Login

if TYPE_CHECKING:
    from headrace.web.tls import HttpTls

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *clusters.ENDPOINTS,
    *topics.ENDPOINTS,
    *partitions.ENDPOINTS,
    *configs.ENDPOINTS,
    *groups.ENDPOINTS,
    *acls.ENDPOINTS,
    *records.ENDPOINTS,
    *v2_topics.ENDPOINTS,
    *v2_produce.ENDPOINTS,
    *partition_read.ENDPOINTS,
    *consumers.ENDPOINTS,
)
OPENAPI_PATH: Final = "/openapi.json"
HEALTH_PATH: Final = "/health"
_MOST_READERS: Final = 200
# Version 2 has a code of its own for topics; in version 3 all unknown things have the same.
_UNKNOWN_TOPIC_V2: Final = 40401


class HttpService:
    """Owned by the event loop."""

    def __init__(
        self, brokers: Brokers, *, registry: str | None = None, timeout_s: float = 30.0, instance_idle_s: float = 300.0
    ) -> None:
        self.brokers = brokers
        self.registry = registry
        self._timeout_s = timeout_s
        self.clients = PerCaller(self._client("headrace-http"))
        self.producers = PerCaller(self._producer)
        self._views = PerCaller(self._view)
        self.instances = ConsumerInstances(self._client("headrace-http-consumer"), idle_s=instance_idle_s)
        self._readers = 0
        self.tokens = DelegationTokens(brokers, timeout_s=timeout_s) if brokers.own is not None else None

    def _client(self, client_id: str) -> Callable[[Caller], Awaitable[ClusterClient]]:
        async def opened(caller: Caller) -> ClusterClient:
            return await logged_in_client(self.brokers, caller, client_id=client_id, timeout_s=self._timeout_s)

        return opened

    async def _producer(self, caller: Caller) -> TopicProducer:
        return TopicProducer(await self._client("headrace-http-producer")(caller))

    async def _view(self, caller: Caller) -> Schemas:
        assert self.registry is not None
        return Schemas(self.registry, caller)

    def schemas(self, caller: Caller) -> AbstractAsyncContextManager[Schemas | None]:
        """The registry as the caller sees it; None without a registry."""
        return nullcontext() if self.registry is None else self._views.lease(caller)

    @asynccontextmanager
    async def reader(self, caller: Caller) -> AsyncIterator[tuple[ClusterClient, Schemas | None]]:
        """A client for fetches that wait. Raises Problem 503 if too many readers are open."""
        if self._readers >= _MOST_READERS:
            raise Problem(503, 50301, f"{_MOST_READERS} readers are open already: try again later")
        self._readers += 1
        try:
            client = await self._client("headrace-http-reader")(caller)
            try:
                async with self.schemas(caller) as schemas:
                    yield client, schemas
            finally:
                await client.close()
        finally:
            self._readers -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with self.instances.running():
                yield
        finally:
            for part in (self.producers, self.clients, self._views):
                await part.close()
            if self.tokens is not None:
                await self.tokens.close()


def application(service: HttpService, *, is_on_loopback: bool, tls: HttpTls | None = None) -> ASGIApp:
    def route(endpoint: Endpoint) -> Route:
        async def called(request: Request) -> Response:
            try:
                return await endpoint.handler(Call(request, service))
            except Refused as refused:
                if refused.code is ErrorCode.unknown_topic_or_partition and not endpoint.path.startswith("/v3"):
                    raise Problem(404, _UNKNOWN_TOPIC_V2, refused.message) from None
                raise

        return Route(endpoint.path, called, methods=[endpoint.method])

    document = openapi.document(ENDPOINTS)

    async def described(_: Request) -> Response:
        return as_json(document)

    async def healthy(_: Request) -> Response:
        return as_json({"status": "ok"})

    routes = [route(one) for one in ENDPOINTS]
    routes += [Route(OPENAPI_PATH, described, methods=["GET"]), Route(HEALTH_PATH, healthy, methods=["GET"])]
    app = Starlette(routes=routes, exception_handlers=HANDLERS)
    app.router.redirect_slashes = False
    login = Login(service.brokers, tls=tls, tokens=service.tokens)
    open_paths = frozenset({OPENAPI_PATH, HEALTH_PATH})
    guarded = LoginRequired(app, login=login, clients=service.clients, open_paths=open_paths)
    return BrowserGuard(guarded, is_on_loopback=is_on_loopback)


def http_server(
    listener: socket.socket, service: HttpService, *, ready: Callable[[str], None], tls: HttpTls | None = None
) -> WebServer:
    host = listener.getsockname()[0]
    app = application(service, is_on_loopback=is_loopback(host), tls=tls)
    return WebServer(listener, app, ready=ready, tls=tls, life=service.running())
