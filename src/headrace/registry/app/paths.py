"""Contexts, subjects and content types of a request, parsed before routing.

Path segments stay percent-encoded until a route uses them, so a subject may contain a slash. The prefix
`/contexts/NAME` is removed from the path, and the context is put into the request's scope.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import BadRequest
from headrace.registry.core.state import State
from headrace.registry.core.subjects import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    QualifiedSubject,
    context_name,
    is_default_scope,
    normalized,
)

V1_JSON: Final = "application/vnd.schemaregistry.v1+json"
_ANSWERED: Final = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
_READ: Final = (*_ANSWERED, "application/octet-stream")
_RESOLVED: Final = "registry_subject"
_BELOW_CONTEXT: Final = frozenset({"subjects", "schemas", "config", "mode", "compatibility", "contexts"})


class RawPaths:
    """ASGI wrapper that gives the routes the undecoded path."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode()
            path = raw.split(b"?")[0].decode("latin-1")
            segments = path.split("/")
            if len(segments) > 3 and segments[1] == "contexts" and segments[3] in _BELOW_CONTEXT:
                scope["registry_context"] = context_name(unquote(segments[2]))
                path = "/" + "/".join(segments[3:])
            path = path.rstrip("/") or "/"
            scope = {**scope, "path": path, "raw_path": path.encode("latin-1")}
        await self.app(scope, receive, send)


def path_context(request: Request) -> str:
    return str(request.scope.get("registry_context", DEFAULT_CONTEXT))


def subject_in(request: Request) -> str:
    """The subject of the path, in the context of the path unless the subject includes one."""
    return qualified(request, unquote(request.path_params["subject"]))


def resolved_subject(request: Request, state: State) -> str:
    """The subject of the path, or the subject for which it is an alias.

    Resolved once for each request: an alias that changes meanwhile must not lead to a subject that the guard has not
    checked.
    """
    known = getattr(request.state, _RESOLVED, None)
    if known is None:
        known = _resolved(request, state)
        setattr(request.state, _RESOLVED, known)
    return str(known)


def _resolved(request: Request, state: State) -> str:
    subject = subject_in(request)
    alias = state.configs.get(subject, {}).get("alias")
    if not alias:
        return subject
    parsed = QualifiedSubject.parse(str(alias))
    context = path_context(request) if parsed.context == DEFAULT_CONTEXT else parsed.context
    return str(QualifiedSubject(context, parsed.name))


def qualified(request: Request, subject: str) -> str:
    parsed = QualifiedSubject.parse(subject)
    if parsed.context == DEFAULT_CONTEXT:
        parsed = QualifiedSubject(path_context(request), parsed.name)
    return str(parsed)


def scope_in(request: Request) -> str | None:
    """For configuration and modes: a subject, a context (`:.ctx:`), or None for the global setting."""
    if "subject" not in request.path_params:
        context = path_context(request)
        return None if context == DEFAULT_CONTEXT else f":{context}:"
    subject = subject_in(request)
    return None if is_default_scope(subject) else normalized(subject)


def prefix_in(request: Request) -> str:
    given = request.query_params.get("subjectPrefix")
    context = path_context(request)
    if context == DEFAULT_CONTEXT:
        return ALL_CONTEXTS if given is None else given
    return qualified(request, given or "")


def flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def page(request: Request, found: list[JsonValue]) -> list[JsonValue]:
    """`offset` and `limit` of a listing. A negative limit means all."""
    offset, limit = number(request, "offset", 0), number(request, "limit", -1)
    return found[offset:] if limit < 0 else found[offset : offset + limit]


def number(request: Request, name: str, absent: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return absent
    try:
        return int(text)
    except ValueError as fault:
        raise BadRequest(404, f"query parameter {name}={text!r} must be a number") from fault


def answer_type(request: Request) -> str:
    """The content type of the answer. Raises 406 if the client accepts none of ours."""
    accepted = [part.split(";")[0].strip().lower() for part in request.headers.get("accept", "*/*").split(",")]
    for each in accepted:
        if each in _ANSWERED:
            return each
    if any(each in ("*/*", "application/*", "") for each in accepted):
        return V1_JSON
    raise BadRequest(406, f"HTTP 406 Not Acceptable: the registry answers in {', '.join(_ANSWERED)}")


async def body_of(request: Request) -> JsonValue:
    """The JSON of the body. Raises 415 for another content type and 400 for invalid JSON."""
    kind = request.headers.get("content-type", V1_JSON).split(";")[0].strip().lower()
    if kind not in _READ:
        raise BadRequest(415, f"HTTP 415 Unsupported Media Type: {kind!r} is not one of {', '.join(_READ)}")
    data = await request.body()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise BadRequest(400, f"the body is not JSON: {fault}") from fault
