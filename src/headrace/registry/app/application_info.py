"""Routes about the registry itself."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace import __version__
from headrace.registry.app.answers import json_answer
from headrace.registry.app.writes import store_of


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


ROUTES = [
    Route("/v1/metadata/id", server_id, methods=["GET"]),
    Route("/v1/metadata/version", server_version, methods=["GET"]),
    Route("/v1/metadata/deployment", deployment, methods=["GET"]),
    Route("/", root, methods=["GET", "POST"]),
]
