"""Checks the caller's rights before a route runs. Every route has a rule here: a route without one does not start.

A registry whose brokers need no login has no guard: it listens on loopback, or its user has opened it by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.registry.app import application_info, schemas, settings, subjects
from headrace.registry.app.paths import resolved_subject, scope_in, subject_in
from headrace.registry.app.rights import Right, Rights
from headrace.registry.app.visibility import VISIBLE, caller_of
from headrace.registry.app.writes import store_of
from headrace.registry.core.subjects import QualifiedSubject

Endpoint = Callable[[Request], Awaitable[Response]]


class Rule(Enum):
    LOGIN = auto()
    """JsonValue caller that the brokers know."""
    READ = auto()
    WRITE = auto()
    DELETE = auto()
    """Deletes the subject that the path names. Other routes use the subject for which it is an alias."""
    READ_SETTING = auto()
    CHANGE_SETTING = auto()
    LIST = auto()
    """The answer holds only subjects that the caller may read."""
    BY_ID = auto()
    """The caller may read one of the subjects that have the schema."""
    CLUSTER = auto()


RULES: Final[dict[Endpoint, Rule]] = {
    application_info.root: Rule.LOGIN,
    application_info.server_id: Rule.LOGIN,
    application_info.server_version: Rule.LOGIN,
    application_info.deployment: Rule.LOGIN,
    schemas.types: Rule.LOGIN,
    schemas.list_schemas: Rule.LIST,
    schemas.by_id: Rule.BY_ID,
    schemas.text_by_id: Rule.BY_ID,
    schemas.subjects_by_id: Rule.BY_ID,
    schemas.versions_by_id: Rule.BY_ID,
    schemas.by_guid: Rule.BY_ID,
    schemas.ids_by_guid: Rule.BY_ID,
    schemas.list_contexts: Rule.LOGIN,
    schemas.delete_context: Rule.CLUSTER,
    subjects.list_subjects: Rule.LIST,
    subjects.look_up: Rule.READ,
    subjects.delete_subject: Rule.DELETE,
    subjects.latest_with_metadata: Rule.READ,
    subjects.list_versions: Rule.READ,
    subjects.register: Rule.WRITE,
    subjects.get_version: Rule.READ,
    subjects.delete_version: Rule.DELETE,
    subjects.get_text: Rule.READ,
    subjects.referenced_by: Rule.READ,
    subjects.change_tags: Rule.WRITE,
    subjects.check_compatibility: Rule.READ,
    settings.get_config: Rule.READ_SETTING,
    settings.put_config: Rule.CHANGE_SETTING,
    settings.delete_config: Rule.CHANGE_SETTING,
    settings.get_mode: Rule.READ_SETTING,
    settings.put_mode: Rule.CHANGE_SETTING,
    settings.delete_mode: Rule.CHANGE_SETTING,
}
_SUBJECT_RIGHTS: Final = {Rule.READ: Right.READ, Rule.WRITE: Right.WRITE}


def guarded(routes: Iterable[Route], rights: Rights) -> list[Route]:
    """The same routes with checks."""
    return [Route(each.path, _checked(each.endpoint, rights), methods=list(each.methods or ())) for each in routes]


def _checked(endpoint: Endpoint, rights: Rights) -> Endpoint:
    rule = RULES[endpoint]

    async def checked(request: Request) -> Response:
        await _check(request, rule, rights)
        return await endpoint(request)

    return checked


async def _check(request: Request, rule: Rule, rights: Rights) -> None:
    caller = caller_of(request)
    assert caller is not None
    if rule in _SUBJECT_RIGHTS:
        subject = resolved_subject(request, store_of(request).state)
        await rights.check(caller, _SUBJECT_RIGHTS[rule], subject)
    elif rule is Rule.DELETE:
        await rights.check(caller, Right.ADMINISTER, subject_in(request))
    elif rule in (Rule.READ_SETTING, Rule.CHANGE_SETTING):
        scope = scope_in(request)
        if scope is not None and QualifiedSubject.parse(scope).name:
            await rights.check(caller, Right.READ if rule is Rule.READ_SETTING else Right.ADMINISTER, scope)
        elif rule is Rule.CHANGE_SETTING:
            await rights.check_cluster(caller)
    elif rule is Rule.CLUSTER:
        await rights.check_cluster(caller)
    elif rule is Rule.LIST:
        setattr(request.state, VISIBLE, await rights.readable(caller, store_of(request).state.subjects))
    elif rule is Rule.BY_ID:
        found = sorted({each.subject for each in schemas.versions_of(request)})
        visible = await rights.readable(caller, found)
        if not any(map(visible, found)):
            await rights.check(caller, Right.READ, found[0])
        setattr(request.state, VISIBLE, visible)
