"""The ASGI application: routes and errors. `serving` starts the store."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import NoAnswer, Unreachable
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.registry.app import application_info, schemas, settings, subjects
from headrace.registry.app.guard import guarded
from headrace.registry.app.paths import V1_JSON, RawPaths
from headrace.registry.app.rights import Rights
from headrace.registry.core.errors import Code, RegistryError
from headrace.registry.store.store import SchemaStore
from headrace.web.browser_guard import BrowserGuard
from headrace.web.connections import LoginRequired, PerCaller
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import Problem, problem_answer, problem_of
from headrace.web.login import Login

_log = logging.getLogger(__name__)
# The largest schema, if all of its text is escaped, and room for references and rules.
_LARGEST_BODY_BYTES: Final = 16 << 20


def schema_routes() -> list[Route]:
    """Routes are tried in this order. Look-ups by id are the most frequent."""
    return [*schemas.ROUTES, *subjects.ROUTES, *settings.ROUTES, *application_info.ROUTES]


def application(
    store: SchemaStore,
    access: Access | None = None,
    peer_tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    *,
    is_on_loopback: bool = False,
) -> ASGIApp:
    """`access` is None if the brokers need no login. `peer_tls` verifies the leader when a write is forwarded."""
    routes = schema_routes()
    rights = None if access is None else Rights(access.clients)
    if rights is not None:
        routes = guarded(routes, rights)
    handlers = {Problem: _problem, Fault: _fault, RegistryError: _refused, HTTPException: _http_fault, Exception: _bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.store = store
    app.state.rights = rights
    app.state.peer_tls = peer_tls
    app.router.redirect_slashes = False
    paths: ASGIApp = RawPaths(app)
    if access is not None:
        paths = LoginRequired(paths, login=access.login, clients=access.clients)
    return BrowserGuard(_Targets(_LimitedBody(paths)), is_on_loopback=is_on_loopback)


@dataclass(frozen=True)
class Access:
    """How callers log in, their own broker connections, and the delegation tokens of callers with certificates."""

    login: Login
    clients: PerCaller[ClusterClient]
    tokens: DelegationTokens | None = None


class _Targets:
    """Keeps the original target of the request (path and query) for forwarding, before middleware rewrites it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
            query = scope.get("query_string", b"").decode("latin-1")
            scope["registry_target"] = f"{raw}?{query}" if query else raw
        await self.app(scope, receive, send)


class _LimitedBody:
    """Answers 413 to a larger body. Routes and the forwarding of writes keep the whole body in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > _LARGEST_BODY_BYTES:
                raise Problem(413, 413, f"the body is larger than {_LARGEST_BODY_BYTES} bytes")
            return message

        await self.app(scope, limited, send)


def _error(status: int, code: int, message: str) -> Response:
    return JSONResponse({"error_code": code, "message": message}, status, media_type=V1_JSON)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RegistryError)
    return _error(error.status, error.code, error.message)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_answer(error)


async def _fault(_: Request, error: Exception) -> Response:
    assert isinstance(error, Fault)
    return problem_answer(problem_of(error))


async def _http_fault(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.status_code, f"HTTP {error.status_code} {error.detail}")


async def _bug(request: Request, error: Exception) -> Response:
    if isinstance(error, Unreachable | NoAnswer):
        return _error(500, Code.STORE, error.message)
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(500, 500, "Internal Server Error: see the log of the registry")
