"""Routes below `/subjects` and `/compatibility`."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.kernel.json_values import JsonValue
from headrace.registry.app.answers import json_answer, registered_answer, schema_answer, text_of
from headrace.registry.app.paths import answer_type, body_of, flag, page, prefix_in, resolved_subject, subject_in
from headrace.registry.app.visibility import check_references, is_visible
from headrace.registry.app.writes import store_of, write
from headrace.registry.core import operations, settings
from headrace.registry.core.content import Content
from headrace.registry.core.data_contracts import with_contract
from headrace.registry.core.errors import InvalidSchema, NotFound
from headrace.registry.core.lookups import canonical, compatibility_messages, find
from headrace.registry.core.records import SubjectVersion
from headrace.registry.core.requests import SchemaRequest, TagRequest, version_number
from headrace.registry.core.schema_types import SCHEMA_TYPES
from headrace.registry.core.state import State
from headrace.registry.core.subjects import DEFAULT_CONTEXT, QualifiedSubject, matches_prefix


async def list_subjects(request: Request) -> Response:
    state, prefix = store_of(request).state, prefix_in(request)
    only = flag(request, "deletedOnly")
    deleted = only or flag(request, "deleted")
    found = [
        subject
        for subject in sorted(state.subjects)
        if matches_prefix(subject, prefix)
        and is_visible(request, subject)
        and state.has_subject(subject, deleted=deleted)
        and not (only and state.has_subject(subject))
    ]
    return json_answer(request, page(request, found))


async def _asked(request: Request) -> SchemaRequest:
    """The schema in the body. Raises 42201 for a type that is turned off."""
    asked = SchemaRequest.from_json(await body_of(request))
    type_, types = asked.content.type, store_of(request).settings.types
    if type_ in SCHEMA_TYPES and type_ not in types:
        raise InvalidSchema(
            f"Invalid schema type {type_}. Valid types are {', '.join(types)}; the registry must be started with "
            f"--{type_.lower()}-schemas"
        )
    return asked


async def look_up(request: Request) -> Response:
    """POST /subjects/{subject}: the version with this content."""
    answer_type(request)
    state, subject = store_of(request).state, _subject(request)
    asked = await _asked(request)
    await check_references(request, subject, asked.content.references)
    deleted = flag(request, "deleted")
    normalize = flag(request, "normalize") or bool(settings.config_in_scope(state, subject).get("normalize"))
    found = _looked_up(state, subject, asked.content, normalize=normalize, deleted=deleted)
    if found is None:
        if not any(state.has_subject(each, deleted=deleted) for each in _candidates(state, subject)):
            raise NotFound.subject(subject)
        raise NotFound.schema()
    return json_answer(request, schema_answer(state, found, request))


def _looked_up(
    state: State, subject: str, content: Content, *, normalize: bool, deleted: bool
) -> SubjectVersion | None:
    """Looks up the schema as it is, then with the metadata and rules that the subject's latest version and
    configuration add."""
    for each in _candidates(state, subject):
        try:
            found = find(state, each, content, normalize=normalize, deleted=deleted)
            latest = state.version(each, -1)
            if found is None and latest is not None:
                config = settings.config_in_scope(state, each)
                whole = with_contract(content, latest.content, config, None, 0)
                found = None if whole == content else find(state, each, whole, normalize=normalize, deleted=deleted)
        except InvalidSchema:
            # In another context the references may not exist.
            if each == subject:
                raise
            continue
        if found is not None:
            return found
    return None


def _candidates(state: State, subject: str) -> list[str]:
    """The subject, and if it names no context, the subjects with this name in other contexts."""
    parsed = QualifiedSubject.parse(subject)
    if parsed.context != DEFAULT_CONTEXT:
        return [subject]
    others = sorted(name for name in state.contexts if name != DEFAULT_CONTEXT)
    return [subject, *(str(QualifiedSubject(context, parsed.name)) for context in others)]


async def delete_subject(request: Request) -> Response:
    subject, permanent = subject_in(request), flag(request, "permanent")
    return await write(request, lambda state: operations.delete_subject(state, subject, permanent=permanent))


async def list_versions(request: Request) -> Response:
    state, subject = store_of(request).state, _subject(request)
    only, negative = flag(request, "deletedOnly"), flag(request, "deletedAsNegative")
    deleted = only or flag(request, "deleted")
    if not state.has_subject(subject, deleted=deleted or negative):
        raise NotFound.subject(subject)
    versions = state.versions(subject, deleted=deleted or negative)
    chosen = [each for each in versions if each.deleted or not only]
    return json_answer(request, page(request, [-v.version if v.deleted and negative else v.version for v in chosen]))


async def register(request: Request) -> Response:
    answer_type(request)
    asked = await _asked(request)
    subject, store = _subject(request), store_of(request)
    await check_references(request, subject, asked.content.references)
    normalize, force = flag(request, "normalize"), flag(request, "force")
    return await write(
        request,
        lambda state: operations.register(state, subject, asked, normalize=normalize, force=force),
        lambda version: registered_answer(store.state, version, request),
    )


async def change_tags(request: Request) -> Response:
    answer_type(request)
    asked = TagRequest.from_json(await body_of(request))
    subject, store = _subject(request), store_of(request)
    number = version_number(unquote(request.path_params["version"]))
    return await write(
        request,
        lambda state: operations.change_tags(state, subject, number, asked),
        lambda version: registered_answer(store.state, version, request),
    )


def _version(request: Request, *, deleted: bool | None = None) -> SubjectVersion:
    """The version that the path names. Raises 40401 or 40402."""
    state, subject = store_of(request).state, _subject(request)
    number = version_number(unquote(request.path_params["version"]))
    deleted = flag(request, "deleted") if deleted is None else deleted
    for each in _candidates(state, subject):
        found = state.version(each, number, deleted=deleted)
        if found is not None:
            return found
    if not state.has_subject(subject, deleted=deleted):
        raise NotFound.subject(subject)
    raise NotFound.version(number)


async def get_version(request: Request) -> Response:
    return json_answer(request, schema_answer(store_of(request).state, _version(request), request))


async def get_text(request: Request) -> Response:
    version = _version(request)
    text = text_of(store_of(request).state, version, request.query_params.get("format", ""))
    return PlainTextResponse(text, media_type=answer_type(request))


async def referenced_by(request: Request) -> Response:
    version = _version(request, deleted=True)
    referrers = store_of(request).state.referenced_by(
        version.subject, version.version, deleted=flag(request, "deleted")
    )
    return json_answer(request, page(request, sorted({each.id for each in referrers})))


async def delete_version(request: Request) -> Response:
    subject, permanent = subject_in(request), flag(request, "permanent")
    number = version_number(unquote(request.path_params["version"]))
    return await write(request, lambda state: operations.delete_version(state, subject, number, permanent=permanent))


async def latest_with_metadata(request: Request) -> Response:
    state, subject = store_of(request).state, _subject(request)
    keys, values = request.query_params.getlist("key"), request.query_params.getlist("value")
    wanted = dict(zip(keys, values, strict=False))
    for version in reversed(state.versions(subject, deleted=flag(request, "deleted"))):
        properties = (version.content.metadata or {}).get("properties") or {}
        if wanted.items() <= properties.items():
            return json_answer(request, schema_answer(state, version, request))
    if not state.has_subject(subject, deleted=flag(request, "deleted")):
        raise NotFound.subject(subject)
    raise NotFound.schema()


async def check_compatibility(request: Request) -> Response:
    """Checks against one version, or without a version against the versions that the level requires."""
    answer_type(request)
    state, subject = store_of(request).state, _subject(request)
    asked = await _asked(request)
    await check_references(request, subject, asked.content.references)
    history = _compared(request, state, subject)
    normalize = flag(request, "normalize") or bool(settings.config_in_scope(state, subject).get("normalize"))
    content, schema = canonical(state, subject, asked.content, normalize=normalize)
    messages = compatibility_messages(state, subject, content, schema, history)
    answer: dict[str, JsonValue] = {"is_compatible": not messages}
    if flag(request, "verbose"):
        answer["messages"] = messages
    return json_answer(request, answer)


def _compared(request: Request, state: State, subject: str) -> list[SubjectVersion]:
    if "version" not in request.path_params:
        return state.versions(subject)
    number = version_number(unquote(request.path_params["version"]))
    version = state.version(subject, number)
    if version is not None:
        return [version]
    if number == -1:
        return []
    raise NotFound.version(number)


def _subject(request: Request) -> str:
    return resolved_subject(request, store_of(request).state)


ROUTES = [
    Route("/subjects", list_subjects, methods=["GET"]),
    Route("/subjects/{subject}", look_up, methods=["POST"]),
    Route("/subjects/{subject}", delete_subject, methods=["DELETE"]),
    Route("/subjects/{subject}/metadata", latest_with_metadata, methods=["GET"]),
    Route("/subjects/{subject}/versions", list_versions, methods=["GET"]),
    Route("/subjects/{subject}/versions", register, methods=["POST"]),
    Route("/subjects/{subject}/versions/{version}", get_version, methods=["GET"]),
    Route("/subjects/{subject}/versions/{version}", delete_version, methods=["DELETE"]),
    Route("/subjects/{subject}/versions/{version}/schema", get_text, methods=["GET"]),
    Route("/subjects/{subject}/versions/{version}/referencedby", referenced_by, methods=["GET"]),
    Route("/subjects/{subject}/versions/{version}/tags", change_tags, methods=["POST"]),
    Route("/compatibility/subjects/{subject}/versions", check_compatibility, methods=["POST"]),
    Route("/compatibility/subjects/{subject}/versions/{version}", check_compatibility, methods=["POST"]),
]
