# ruff: noqa: E501 (a row of the table is a line)
"""Every route of the schema registry for every kind of caller: no login, a wrong password, users with and without rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from headrace.client.security import ClientSecurity
from headrace.registry.app.application import schema_routes
from headrace.registry.app.guard import RULES
from headrace.registry.app.serving import RegistryServer, identity_of
from headrace.registry.store.store import StoreSettings
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers
from tests.support.registry import ask
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker
from tests.support.web import basic, running_server

MECHANISM = "SCRAM-SHA-256"
CALLERS = ("nobody", "wrong", "stranger", "reader", "writer", "administrator")
# User, operation, resource: `registry` is the service's own user. It is no super user.
ACLS = [
    ("registry", AclOperation.ALL, ResourceType.TOPIC, "_schemas", ResourcePatternType.LITERAL),
    ("registry", AclOperation.ALL, ResourceType.GROUP, "schema-registry", ResourcePatternType.LITERAL),
    ("registry", AclOperation.ALL, ResourceType.TRANSACTIONAL_ID, "schema-registry", ResourcePatternType.PREFIXED),
    ("reader", AclOperation.READ, ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL),
    ("writer", AclOperation.WRITE, ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL),
    ("administrator", AclOperation.ALL, ResourceType.TOPIC, "orders", ResourcePatternType.PREFIXED),
    ("administrator", AclOperation.ALTER_CONFIGS, ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL),
]


@pytest.fixture(scope="module")
def brokers() -> Iterator[SaslBroker]:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with sasl_broker(authorizer) as started:
        for user in ("registry", *CALLERS[2:]):
            started.set_password(user, PASSWORD, MECHANISM)
        bindings = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for user, operation, kind, name, pattern in ACLS
        ]
        for future in started.admin.create_acls(bindings).values():
            future.result(20)
        yield started


@pytest.fixture(scope="module")
def url(brokers: SaslBroker) -> Iterator[str]:
    listener = bound_socket(ListenAddress("127.0.0.1", 0))
    own = brokers.settings(MECHANISM, "registry")
    settings = StoreSettings(brokers.bootstrap, identity_of(listener), security=ClientSecurity.from_settings(own))
    with running_server(
        lambda ready: RegistryServer(listener, settings, ready, brokers=Brokers.from_settings(brokers.bootstrap, own))
    ) as started:
        yield started


def asked(url: str, caller: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    password = "wrong" if caller == "wrong" else PASSWORD
    user = "reader" if caller == "wrong" else caller
    login = {} if caller == "nobody" else {"Authorization": basic(user, password)}
    return ask(url, method, path, body, **login)


@pytest.fixture(scope="module")
def filled(url: str, brokers: SaslBroker) -> dict[str, Any]:
    """Subjects of `orders`, and `secret-value`, which only the administrator of this table may not read either."""
    found: dict[str, Any] = {}
    status, made = asked(url, "administrator", "POST", "/subjects/orders-value/versions", {"schema": '"int"'})
    assert status == 200, made
    found["id"], found["guid"] = made["id"], made["guid"]
    return found


SCHEMA = {"schema": '"int"'}
TAGS: dict[str, Any] = {"metadata": {"properties": {"owner": "me"}}}
# Rows: method, path, body, and the status for stranger, reader, writer and administrator.
TABLE: list[tuple[str, str, Any, tuple[int, int, int, int]]] = [
    ("GET", "/", None, (200, 200, 200, 200)),
    ("POST", "/", {}, (200, 200, 200, 200)),
    ("GET", "/v1/metadata/id", None, (200, 200, 200, 200)),
    ("GET", "/v1/metadata/version", None, (200, 200, 200, 200)),
    ("GET", "/v1/metadata/deployment", None, (200, 200, 200, 200)),
    ("GET", "/schemas/types", None, (200, 200, 200, 200)),
    ("GET", "/schemas", None, (200, 200, 200, 200)),
    ("GET", "/schemas/ids/{id}", None, (403, 200, 200, 200)),
    ("GET", "/schemas/ids/{id}/schema", None, (403, 200, 200, 200)),
    ("GET", "/schemas/ids/{id}/subjects", None, (403, 200, 200, 200)),
    ("GET", "/schemas/ids/{id}/versions", None, (403, 200, 200, 200)),
    ("GET", "/schemas/guids/{guid}", None, (403, 200, 200, 200)),
    ("GET", "/schemas/guids/{guid}/ids", None, (403, 200, 200, 200)),
    ("GET", "/contexts", None, (200, 200, 200, 200)),
    ("GET", "/subjects", None, (200, 200, 200, 200)),
    ("POST", "/subjects/orders-value", SCHEMA, (403, 200, 200, 200)),
    ("GET", "/subjects/orders-value/metadata?key=a&value=b", None, (403, 404, 404, 404)),
    ("GET", "/subjects/orders-value/versions", None, (403, 200, 200, 200)),
    ("POST", "/subjects/orders-value/versions", SCHEMA, (403, 403, 200, 200)),
    ("GET", "/subjects/orders-value/versions/1", None, (403, 200, 200, 200)),
    ("GET", "/subjects/orders-value/versions/1/schema", None, (403, 200, 200, 200)),
    ("GET", "/subjects/orders-value/versions/1/referencedby", None, (403, 200, 200, 200)),
    ("POST", "/subjects/orders-value/versions/1/tags", TAGS, (403, 403, 200, 200)),
    ("POST", "/compatibility/subjects/orders-value/versions", SCHEMA, (403, 200, 200, 200)),
    ("POST", "/compatibility/subjects/orders-value/versions/1", SCHEMA, (403, 200, 200, 200)),
    ("GET", "/config", None, (200, 200, 200, 200)),
    ("PUT", "/config", {"compatibility": "BACKWARD"}, (403, 403, 403, 200)),
    ("DELETE", "/config", None, (403, 403, 403, 200)),
    ("GET", "/config/orders-value", None, (403, 404, 404, 404)),
    ("PUT", "/config/orders-value", {"compatibility": "FULL"}, (403, 403, 403, 200)),
    ("DELETE", "/config/orders-value", None, (403, 403, 403, 200)),
    ("GET", "/mode", None, (200, 200, 200, 200)),
    ("PUT", "/mode", {"mode": "READWRITE"}, (403, 403, 403, 200)),
    ("DELETE", "/mode", None, (403, 403, 403, 200)),
    ("GET", "/mode/orders-value", None, (403, 404, 404, 404)),
    ("PUT", "/mode/orders-value", {"mode": "READWRITE"}, (403, 403, 403, 200)),
    ("DELETE", "/mode/orders-value", None, (403, 403, 403, 200)),
    ("DELETE", "/contexts/.none", None, (403, 403, 403, 204)),
    ("DELETE", "/subjects/orders-value/versions/2", None, (403, 403, 403, 200)),
    ("DELETE", "/subjects/orders-gone", None, (403, 403, 403, 404)),
]


def test_the_table_has_every_route() -> None:
    def matches(path: str, method: str) -> str:
        for route in schema_routes():
            if method in (route.methods or ()) and route.path_regex.match(path.split("?")[0]):
                return f"{method} {route.path}"
        raise AssertionError(f"no route for {method} {path}")

    covered = {matches(path.format(id=1, guid="g"), method) for method, path, _, _ in TABLE}
    every = {f"{m} {route.path}" for route in schema_routes() for m in route.methods or () if m != "HEAD"}
    assert covered == every
    assert {route.endpoint for route in schema_routes()} == set(RULES)


@pytest.mark.parametrize(("method", "path", "body", "statuses"), TABLE, ids=[f"{m} {p}" for m, p, _, _ in TABLE])
def test_route_by_caller(
    url: str, filled: dict[str, Any], method: str, path: str, body: Any, statuses: tuple[int, ...]
) -> None:
    target = path.format(**filled)
    expected = dict(zip(CALLERS, (401, 401, *statuses), strict=True))
    found = {}
    for caller in CALLERS:
        status, answer = asked(url, caller, method, target, body)
        found[caller] = status
        if status in (401, 403):
            assert answer["error_code"] == {401: 40101, 403: 40301}[status]
    assert found == expected


def test_listings_hold_only_subjects_that_the_caller_may_read(url: str, filled: dict[str, Any]) -> None:
    assert (
        asked(url, "administrator", "POST", "/subjects/orders-archive-value/versions", {"schema": '"long"'})[0] == 200
    )
    assert asked(url, "administrator", "GET", "/subjects")[1] == ["orders-archive-value", "orders-value"]
    assert asked(url, "reader", "GET", "/subjects") == (200, ["orders-value"])
    assert asked(url, "stranger", "GET", "/subjects") == (200, [])
    assert {each["subject"] for each in asked(url, "reader", "GET", "/schemas")[1]} == {"orders-value"}
    assert asked(url, "stranger", "GET", "/schemas") == (200, [])


def test_a_reference_does_not_show_a_schema_that_the_caller_may_not_read(url: str, filled: dict[str, Any]) -> None:
    hidden = {"schema": json.dumps({"type": "fixed", "name": "orders.Hidden", "size": 3})}
    assert asked(url, "administrator", "POST", "/subjects/orders-hidden-value/versions", hidden)[0] == 200
    reference = {"name": "orders.Hidden", "subject": "orders-hidden-value", "version": 1}
    body = {
        "schema": '{"type":"record","name":"R","fields":[{"name":"f","type":"orders.Hidden"}]}',
        "references": [reference],
    }
    for method_path in (
        "/subjects/orders-value/versions?format=resolved",
        "/subjects/orders-value",
        "/compatibility/subjects/orders-value/versions",
    ):
        assert asked(url, "writer", "POST", method_path, body)[0] == 403


def test_an_alias_needs_the_rights_of_its_subject(url: str, filled: dict[str, Any]) -> None:
    assert asked(url, "administrator", "PUT", "/config/orders-alias", {"alias": "orders-hidden-value"})[0] == 200
    assert asked(url, "reader", "GET", "/subjects/orders-alias/versions")[0] == 403
