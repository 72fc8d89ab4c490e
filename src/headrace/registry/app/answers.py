"""Versions and settings as JSON answers."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from headrace.kernel.json_values import JsonValue
from headrace.registry.app.paths import answer_type, flag
from headrace.registry.core.content import guid_of
from headrace.registry.core.lookups import parsed
from headrace.registry.core.records import SubjectVersion
from headrace.registry.core.state import State
from headrace.registry.core.subjects import context_of, in_context_of
from headrace.registry.core.tags import tags_json


def json_answer(request: Request, document: JsonValue, status: int = 200) -> Response:
    return Response(
        json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(),
        status,
        media_type=answer_type(request),
    )


def text_of(state: State, version: SubjectVersion, format_: str) -> str:
    """The schema text in the requested format, or as it is stored."""
    if not format_.strip():
        return version.content.text
    return parsed(state, version.subject, version.content).formatted(format_)


def schema_answer(state: State, version: SubjectVersion, request: Request) -> dict[str, JsonValue]:
    """A version of a subject."""
    answer = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": guid_of(version.md5),
        "schemaType": version.content.type,
        **version.content.extras(),
        "schema": text_of(state, version, request.query_params.get("format", "")),
    }
    answer |= _tags(state, version, request)
    if request.query_params.get("referenceFormat") == "qualified" and version.content.references:
        answer["references"] = [
            {**each.as_json(), "subject": in_context_of(version.subject, each.subject)}
            for each in version.content.references
        ]
    return answer


def _tags(state: State, version: SubjectVersion, request: Request) -> dict[str, JsonValue]:
    """`findTags=true` lists the tags that stand in the text of the schema."""
    if not flag(request, "findTags"):
        return {}
    found = tags_json(parsed(state, version.subject, version.content).tags())
    return {"schemaTags": found} if found else {}


def registered_answer(state: State, version: SubjectVersion, request: Request) -> dict[str, JsonValue]:
    return {
        "id": version.id,
        "version": version.version,
        "guid": guid_of(version.md5),
        **version.content.extras(),
        "schema": text_of(state, version, request.query_params.get("format", "")),
    }


def id_answer(state: State, version: SubjectVersion, request: Request) -> dict[str, JsonValue]:
    """Answer for a schema by its id, without subject and version."""
    answer = {
        "schema": text_of(state, version, request.query_params.get("format", "")),
        **version.content.extras(),
        "guid": guid_of(version.md5),
    }
    answer |= _tags(state, version, request)
    if request.query_params.get("fetchMaxId", "").lower() == "true":
        answer["maxId"] = state.contexts[context_of(version.subject)].highest_id
    return answer
