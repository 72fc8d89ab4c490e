"""For each route: the subject whose rights the guard checks is the subject that the route reads or changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Scope

from headrace.kernel.json_values import JsonValue
from headrace.registry.app.application import schema_routes
from headrace.registry.app.guard import guarded
from headrace.registry.app.rights import FORBIDDEN, Right, Rights
from headrace.registry.core import operations
from headrace.registry.core.errors import BadRequest
from headrace.registry.core.requests import SchemaRequest
from headrace.registry.core.state import State
from headrace.registry.store.election import Identity
from headrace.registry.store.store import Operation, SchemaStore, StoreSettings
from headrace.web.login import Caller

ALIAS, TARGET = "alias-value", "target-value"
ENDPOINTS = [
    (method, route.path)
    for route in schema_routes()
    for method in sorted(route.methods or ())
    if "{subject}" in route.path and method != "HEAD"
]
DELETIONS = {("DELETE", "/subjects/{subject}"), ("DELETE", "/subjects/{subject}/versions/{version}")}
BODIES: dict[str, Any] = {
    "config": {"compatibility": "FULL"},
    "mode": {"mode": "READWRITE"},
    "tags": {"metadata": {"properties": {"owner": "me"}}},
}


class Names(dict[Any, Any]):
    """A dictionary that remembers which keys were looked up or set."""

    def __init__(self, values: dict[Any, Any], used: set[Any]) -> None:
        super().__init__(values)
        self.used = used

    def get(self, key: Any, default: Any = None) -> Any:
        self.used.add(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.used.add(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.used.add(key)
        super().__setitem__(key, value)


class OneInstance(SchemaStore):
    """A store whose writes change its state at once."""

    def __init__(self) -> None:
        super().__init__(StoreSettings("127.0.0.1:1", Identity("127.0.0.1", 1)))
        for subject, schema in ((ALIAS, '"int"'), (TARGET, '"string"')):
            asked = SchemaRequest.from_json({"schema": schema})
            self._apply(operations.register(self.state, subject, asked, normalize=False))
        for subject in (ALIAS, TARGET):
            self._apply(operations.set_mode(self.state, subject, {"mode": "READWRITE"}, force=True))
        self._apply(operations.set_config(self.state, ALIAS, {"alias": TARGET}))

    def _apply(self, decision: operations.Decision) -> JsonValue:
        for entry in decision.records:
            self.state.replay(entry)
        return decision.reply

    async def write(self, operation: Operation) -> JsonValue:
        return self._apply(operation(self.state))


class Checks:
    """Rights that remember which subjects were checked. `before_route` runs after a check."""

    def __init__(self, before_route: Callable[[], None] = lambda: None) -> None:
        self.checked: list[tuple[Right, str]] = []
        self.may: set[str] = {ALIAS, TARGET}
        self._before_route = before_route

    async def check(self, _: Caller, right: Right, subject: str) -> None:
        self.checked.append((right, subject))
        if subject not in self.may:
            raise BadRequest(FORBIDDEN, "may not")
        self._before_route()


def answer(store: SchemaStore, checks: Checks, method: str, path: str, body: Any) -> tuple[int, Any]:
    app = Starlette(routes=guarded(schema_routes(), cast("Rights", checks)), exception_handlers={BadRequest: refused})
    app.state.store = store
    app.state.rights = None
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [],
        "state": {"caller": Caller("User:ann", None)},
    }
    asyncio.run(app(scope, receive, send))
    data = b"".join(each.get("body", b"") for each in sent[1:])
    return int(sent[0]["status"]), data


async def refused(*_: object) -> Response:
    return Response(status_code=403)


def path_of(route: str) -> str:
    return route.replace("{subject}", ALIAS).replace("{version}", "1")


def body_for(route: str) -> Any:
    return next((body for part, body in BODIES.items() if part in route.split("/")), {"schema": '"string"'})


@pytest.fixture
def store() -> Iterator[OneInstance]:
    yield OneInstance()


@pytest.mark.parametrize(("method", "route"), ENDPOINTS, ids=[f"{m} {r}" for m, r in ENDPOINTS])
def test_the_checked_subject_is_the_used_one(store: OneInstance, method: str, route: str) -> None:
    used: set[Any] = set()
    state: State = store.state
    checks = Checks(used.clear)
    if route.startswith(("/config", "/mode")):
        state.configs, state.modes = Names(dict(state.configs), used), Names(state.modes, used)
    else:
        state.subjects = Names(state.subjects, used)
    status, data = answer(store, checks, method, path_of(route), body_for(route))
    assert status in (200, 404), data
    ((_, checked),) = checks.checked
    assert used & {ALIAS, TARGET} == {checked}
    is_own = (method, route) in DELETIONS or route.startswith(("/config", "/mode"))
    assert checked == (ALIAS if is_own else TARGET)


@pytest.mark.parametrize(("method", "route"), sorted(DELETIONS))
def test_rights_on_the_target_do_not_delete_the_alias(store: OneInstance, method: str, route: str) -> None:
    checks = Checks()
    checks.may = {TARGET}
    assert answer(store, checks, method, path_of(route), None)[0] == 403
    assert store.state.has_subject(ALIAS)
    checks.may = {ALIAS}
    assert answer(store, checks, method, path_of(route), None)[0] == 200
    assert not store.state.has_subject(ALIAS)
    assert store.state.has_subject(TARGET)


def test_an_alias_that_changes_during_a_request_does_not_redirect_it(store: OneInstance) -> None:
    """The body of a registration may arrive long after the check."""

    def change_the_alias() -> None:
        store.state.configs[ALIAS] = {"alias": "secret-value"}

    checks = Checks(change_the_alias)
    assert answer(store, checks, "POST", f"/subjects/{ALIAS}/versions", {"schema": '"bytes"'})[0] == 200
    assert checks.checked == [(Right.WRITE, TARGET)]
    assert not store.state.has_subject("secret-value")
    assert len(store.state.versions(TARGET)) == 2


def test_a_setting_of_a_subject_whose_name_ends_with_a_colon_is_checked(store: OneInstance) -> None:
    checks = Checks()
    assert answer(store, checks, "GET", "/config/secret:", None)[0] == 403
    assert checks.checked == [(Right.READ, "secret:")]
