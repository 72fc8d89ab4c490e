"""The ASGI application: routes and errors. `serving` starts the store."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace import __version__
from headrace.client.errors import NoAnswer, Unreachable
from headrace.registry.app import schemas, settings, subjects
from headrace.registry.app.answers import json_answer
from headrace.registry.app.paths import V1_JSON, RawPaths
from headrace.registry.app.writes import store_of
from headrace.registry.core.errors import Code, RegistryError
from headrace.registry.store.store import SchemaStore

_log = logging.getLogger(__name__)


async def root(request: Request) -> Response:
    return json_answer(request, {})


async def server_id(request: Request) -> Response:
    store = store_of(request)
    scope = {
        "path": [],
        "clusters": {"kafka-cluster": store.cluster_id, "schema-registry-cluster": store.settings.group},
    }
    return json_answer(request, {"id": "", "scope": scope})


async def server_version(request: Request) -> Response:
    return json_answer(request, {"version": __version__, "commitId": ""})


async def deployment(request: Request) -> Response:
    return json_answer(request, {"attributes": ["deploymentScope:opensource"]})


def application(store: SchemaStore) -> ASGIApp:
    # Routes are tried in this order. Look-ups by id are the most frequent.
    routes = [
        *schemas.ROUTES,
        *subjects.ROUTES,
        *settings.ROUTES,
        Route("/v1/metadata/id", server_id, methods=["GET"]),
        Route("/v1/metadata/version", server_version, methods=["GET"]),
        Route("/v1/metadata/deployment", deployment, methods=["GET"]),
        Route("/", root, methods=["GET", "POST"]),
    ]
    handlers = {RegistryError: _refused, HTTPException: _http_fault, Exception: _bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.store = store
    app.router.redirect_slashes = False
    return _Targets(RawPaths(app))


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


def _error(status: int, code: int, message: str) -> Response:
    return JSONResponse({"error_code": code, "message": message}, status, media_type=V1_JSON)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RegistryError)
    return _error(error.status, error.code, error.message)


async def _http_fault(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.status_code, f"HTTP {error.status_code} {error.detail}")


async def _bug(request: Request, error: Exception) -> Response:
    if isinstance(error, Unreachable | NoAnswer):
        return _error(500, Code.STORE, error.message)
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(500, 500, "Internal Server Error: see the log of the registry")
