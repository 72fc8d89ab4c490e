"""Routes below `/schemas` (by id, by GUID, all) and `/contexts`."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.registry.app.answers import id_answer, json_answer, schema_answer, text_of
from headrace.registry.app.paths import answer_type, flag, page, path_context, prefix_in
from headrace.registry.app.visibility import is_visible
from headrace.registry.app.writes import store_of, write
from headrace.registry.core import operations
from headrace.registry.core.content import has_rule_of, md5_of_guid
from headrace.registry.core.errors import NotFound
from headrace.registry.core.records import SubjectVersion
from headrace.registry.core.subjects import DEFAULT_CONTEXT, QualifiedSubject, context_name, matches_prefix


async def types(request: Request) -> Response:
    return json_answer(request, list(reversed(store_of(request).settings.types)))


async def list_schemas(request: Request) -> Response:
    state, prefix = store_of(request).state, prefix_in(request)
    deleted, latest_only = flag(request, "deleted"), flag(request, "latestOnly")
    rule_type = request.query_params.get("ruleType", "")
    aliases = state.aliases(prefix) if flag(request, "aliases") else {}
    found: list[SubjectVersion] = []
    for subject in sorted(state.subjects):
        if (matches_prefix(subject, prefix) or subject in aliases) and is_visible(request, subject):
            versions = state.versions(subject, deleted=deleted)
            found += versions[-1:] if latest_only else versions
    if rule_type:
        found = [each for each in found if has_rule_of(each.content, rule_type)]
    return json_answer(
        request,
        [
            schema_answer(state, each, request)
            | ({"aliases": aliases[each.subject]} if each.subject in aliases else {})
            for each in page(request, found)
        ],
    )


def _places(request: Request) -> list[SubjectVersion]:
    """All versions with the id of the path, in the context of the path or the subject. Raises 40403."""
    state = store_of(request).state
    text = unquote(request.path_params["id"])
    if not text.removeprefix("-").isdecimal():
        raise NotFound(404, f"HTTP 404 Not Found: schema id {text!r} is not a number")
    subject = QualifiedSubject.parse(request.query_params.get("subject", ""))
    context = subject.context if subject.context != DEFAULT_CONTEXT else path_context(request)
    places = state.places(int(text), context)
    if not places and subject.name and context == DEFAULT_CONTEXT:
        elsewhere = (state.places(int(text), name) for name in sorted(state.contexts))
        places = [
            each for found in elsewhere for each in found if QualifiedSubject.parse(each.subject).name == subject.name
        ]
    places = [each for each in places if is_visible(request, each.subject)]
    if not places:
        raise NotFound.schema(int(text))
    return places


def versions_of(request: Request) -> list[SubjectVersion]:
    """All versions with the schema that the path names by id or GUID. Raises 40403."""
    if "id" in request.path_params:
        return _places(request)
    state = store_of(request).state
    return [each for context, id_ in _ids_by_guid(request) for each in state.places(id_, context)]


def _one(request: Request) -> SubjectVersion:
    """The version of the subject in the query if it has the id, because the answer must have its references."""
    places = _places(request)
    subject = request.query_params.get("subject")
    return next((each for each in places if each.subject == subject), places[0])


async def by_id(request: Request) -> Response:
    return json_answer(request, id_answer(store_of(request).state, _one(request), request))


async def text_by_id(request: Request) -> Response:
    text = text_of(store_of(request).state, _one(request), request.query_params.get("format", ""))
    return PlainTextResponse(text, media_type=answer_type(request))


def _shown(request: Request) -> list[SubjectVersion]:
    deleted, subject = flag(request, "deleted"), request.query_params.get("subject")
    return [
        each
        for each in _places(request)
        if (deleted or not each.deleted) and (not subject or subject in (each.subject, f":{path_context(request)}:"))
    ]


async def subjects_by_id(request: Request) -> Response:
    return json_answer(request, page(request, sorted({each.subject for each in _shown(request)})))


async def versions_by_id(request: Request) -> Response:
    return json_answer(
        request, page(request, [{"subject": each.subject, "version": each.version} for each in _shown(request)])
    )


def _ids_by_guid(request: Request) -> list[tuple[str, int]]:
    guid = unquote(request.path_params["guid"])
    md5 = md5_of_guid(guid)
    contexts = store_of(request).state.contexts
    found = [(name, contexts[name].hashes[md5]) for name in sorted(contexts) if md5 and md5 in contexts[name].hashes]
    if not found:
        raise NotFound.schema(guid)
    return found


async def by_guid(request: Request) -> Response:
    state = store_of(request).state
    found = [each for each in versions_of(request) if is_visible(request, each.subject)]
    return json_answer(request, id_answer(state, found[0], request))


async def ids_by_guid(request: Request) -> Response:
    return json_answer(request, [{"context": context, "id": id_} for context, id_ in _ids_by_guid(request)])


async def list_contexts(request: Request) -> Response:
    prefix = request.query_params.get("contextPrefix", "")
    names = [name for name in sorted(store_of(request).state.contexts) if name.startswith(prefix)]
    return json_answer(request, page(request, names))


async def delete_context(request: Request) -> Response:
    context = context_name(unquote(request.path_params["context"]))
    answer = await write(request, lambda state: operations.delete_context(state, context))
    return Response(status_code=204) if answer.status_code == 200 else answer


ROUTES = [
    Route("/schemas/ids/{id}", by_id, methods=["GET"]),
    Route("/schemas/types", types, methods=["GET"]),
    Route("/schemas", list_schemas, methods=["GET"]),
    Route("/schemas/ids/{id}/schema", text_by_id, methods=["GET"]),
    Route("/schemas/ids/{id}/subjects", subjects_by_id, methods=["GET"]),
    Route("/schemas/ids/{id}/versions", versions_by_id, methods=["GET"]),
    Route("/schemas/guids/{guid}", by_guid, methods=["GET"]),
    Route("/schemas/guids/{guid}/ids", ids_by_guid, methods=["GET"]),
    Route("/contexts", list_contexts, methods=["GET"]),
    Route("/contexts/{context}", delete_context, methods=["DELETE"]),
]
