"""Routes below `/config` and `/mode`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.kernel.json_values import JsonValue
from headrace.registry.app.answers import json_answer
from headrace.registry.app.paths import body_of, flag, scope_in
from headrace.registry.app.writes import store_of, write
from headrace.registry.core import operations, settings
from headrace.registry.core.errors import BadRequest, Code, NotFound


async def get_config(request: Request) -> Response:
    state, scope = store_of(request).state, scope_in(request)
    if flag(request, "defaultToGlobal"):
        return json_answer(request, settings.config_in_scope(state, scope))
    config = settings.config_of(state, scope)
    if config is None:
        raise NotFound(
            Code.NO_SUBJECT_CONFIG, f"Subject '{scope}' does not have subject-level compatibility configured"
        )
    return json_answer(request, config)


async def put_config(request: Request) -> Response:
    scope, body = scope_in(request), await _object(request)
    return await write(request, lambda state: operations.set_config(state, scope, body))


async def delete_config(request: Request) -> Response:
    scope = scope_in(request)
    return await write(request, lambda state: operations.delete_config(state, scope))


async def get_mode(request: Request) -> Response:
    state, scope = store_of(request).state, scope_in(request)
    mode = settings.mode_in_scope(state, scope) if flag(request, "defaultToGlobal") else settings.mode_of(state, scope)
    if mode is None:
        raise NotFound(Code.NO_SUBJECT_MODE, f"Subject '{scope}' does not have subject-level mode configured")
    return json_answer(request, {"mode": mode.value})


async def put_mode(request: Request) -> Response:
    scope, body, force = scope_in(request), await _object(request), flag(request, "force")
    return await write(request, lambda state: operations.set_mode(state, scope, body, force=force))


async def delete_mode(request: Request) -> Response:
    scope, recursive = scope_in(request), flag(request, "recursive")
    return await write(request, lambda state: operations.delete_mode(state, scope, recursive=recursive))


async def _object(request: Request) -> dict[str, JsonValue]:
    body = await body_of(request)
    if not isinstance(body, dict):
        raise BadRequest(400, "the body must be a JSON object")
    return body


ROUTES = [
    Route(path, endpoint, methods=[method])
    for below in ("", "/{subject}")
    for path, method, endpoint in (
        (f"/config{below}", "GET", get_config),
        (f"/config{below}", "PUT", put_config),
        (f"/config{below}", "DELETE", delete_config),
        (f"/mode{below}", "GET", get_mode),
        (f"/mode{below}", "PUT", put_mode),
        (f"/mode{below}", "DELETE", delete_mode),
    )
]
