"""Configs of topics, of brokers, and of the cluster (the defaults of all brokers)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from headrace.client.cluster_client import ClusterClient
from headrace.http.call import Call, as_json, field, no_content, reason_of
from headrace.http.endpoint import FLAG, TEXT, Endpoint, Schema, a_list, an_object
from headrace.http.v3.resources import CLUSTER, LIST_ANSWER, RESOURCE_ANSWER, Links, check_cluster
from headrace.http.v3.topics import TOPIC, described_topic
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.web.errors import Problem, unprocessable
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
_DYNAMIC_DEFAULT: Final = 3


class _Resource:
    """What the configs belong to: a topic, a broker, or the cluster."""

    def __init__(self, kind: int, name: str, path: tuple[object, ...], word: str, fields: JsonObject) -> None:
        self.kind, self.name, self.path, self.word, self.fields = kind, name, path, word, fields

    @property
    def node(self) -> int | None:
        return int(self.name) if self.kind == _BROKER and self.name else None


async def _resource(call: Call, client: ClusterClient) -> _Resource:
    params = call.request.path_params
    if "topic_name" in params:
        name = call.path("topic_name")
        await described_topic(client, name)
        return _Resource(_TOPIC, name, ("topics", name, "configs"), "Topic", {"topic_name": name})
    if "broker_id" in params:
        number = call.number_in_path("broker_id")
        if number not in (await client.refresh(())).nodes:
            raise Problem(404, 404, f"broker {number} does not exist: the cluster has {sorted(client.metadata.nodes)}")
        return _Resource(_BROKER, str(number), ("brokers", number, "configs"), "Broker", {"broker_id": number})
    return _Resource(_BROKER, "", ("broker-configs",), "Cluster", {"config_type": "BROKER"})


def _config(links: Links, resource: _Resource, entry: Entity) -> JsonObject:
    name = str(entry.name)
    source = _SOURCES.get(int(entry.config_source), "UNKNOWN")
    synonyms = [
        {"name": str(one.name), "value": one.value, "source": _SOURCES.get(int(one.source), "UNKNOWN")}
        for one in entry.synonyms or ()
    ]
    return links.resource(
        f"Kafka{resource.word}Config",
        (*resource.path, name),
        {
            **resource.fields,
            "name": name,
            "value": entry.value,
            "is_read_only": bool(entry.read_only),
            "is_sensitive": bool(entry.is_sensitive),
            "is_default": source == "DEFAULT_CONFIG",
            "source": source,
            "synonyms": synonyms,
        },
    )


async def _entries(client: ClusterClient, resource: _Resource) -> list[Entity]:
    body = {
        "resources": [{"resource_type": resource.kind, "resource_name": resource.name, "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": False,
    }
    result = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=resource.node)).results[0]
    _check(result, resource)
    entries = sorted(result.configs, key=lambda entry: str(entry.name))
    if resource.word == "Cluster":
        entries = [entry for entry in entries if int(entry.config_source) == _DYNAMIC_DEFAULT]
    return entries


def _check(result: Entity, resource: _Resource) -> None:
    code = ErrorCode(result.error_code)
    if code is not ErrorCode.none:
        raise Refused(code, result.error_message or reason_of(resource.name, code))


async def list_configs(call: Call) -> Response:
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        resource = await _resource(call, client)
        entries = await _entries(client, resource)
    shown = [_config(links, resource, entry) for entry in entries]
    return as_json(links.listed(f"Kafka{resource.word}ConfigList", resource.path, shown))


async def get_config(call: Call) -> Response:
    name = call.path("name")
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        resource = await _resource(call, client)
        for entry in await _entries(client, resource):
            if str(entry.name) == name:
                return as_json(_config(links, resource, entry))
    raise Problem(404, 404, f"Config {name} cannot be found.")


async def _alter(call: Call, changes: list[JsonObject], *, is_dry: bool = False) -> Response:
    async with call.client() as client:
        await check_cluster(call, client)
        resource = await _resource(call, client)
        body = {
            "resources": [{"resource_type": resource.kind, "resource_name": resource.name, "configs": changes}],
            "validate_only": is_dry,
        }
        result = (await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, node=resource.node)).responses[0]
        _check(result, resource)
    return no_content()


async def update_config(call: Call) -> Response:
    body = await call.document()
    value = field(body, "value", str, None)
    operation = _DELETE if value is None else _SET
    return await _alter(call, [{"name": call.path("name"), "config_operation": operation, "value": value}])


async def reset_config(call: Call) -> Response:
    return await _alter(call, [{"name": call.path("name"), "config_operation": _DELETE, "value": None}])


async def alter_configs(call: Call) -> Response:
    body = await call.document()
    changes = []
    for one in field(body, "data", list):
        if not isinstance(one, dict):
            raise unprocessable("data: each must be an object with name, value and operation")
        operation = field(one, "operation", str, "SET")
        if operation not in ("SET", "DELETE"):
            raise unprocessable(f"operation={operation!r}: must be SET or DELETE")
        value = None if operation == "DELETE" else field(one, "value", str, None)
        number = _DELETE if value is None else _SET
        changes.append({"name": field(one, "name", str), "config_operation": number, "value": value})
    return await _alter(call, changes, is_dry=field(body, "validate_only", bool, False))


_ALTER: Schema = an_object(
    "data",
    data=a_list(
        an_object("name", name=TEXT, value=TEXT, operation={"type": "string", "enum": ["SET", "DELETE", None]})
    ),
    validate_only=FLAG,
)
_VALUE: Schema = an_object(value=TEXT)


def _endpoints(base: str, what: str) -> tuple[Endpoint, ...]:
    def row(
        method: str, path: str, handler: Callable[[Call], Awaitable[Response]], text: str, **more: JsonValue
    ) -> Endpoint:
        return Endpoint(method, f"{base}{path}", handler, f"{text} {what}.", **more)

    done: JsonObject = {"status": 204, "answer": None}
    return (
        row("GET", "", list_configs, "List the configs of", answer=LIST_ANSWER),
        row("POST", ":alter", alter_configs, "Set and reset several configs of", body=_ALTER, **done),
        row("GET", "/{name}", get_config, "Show a config of", answer=RESOURCE_ANSWER),
        row("PUT", "/{name}", update_config, "Set a config of", body=_VALUE, **done),
        row("DELETE", "/{name}", reset_config, "Reset a config to its default, of", **done),
    )


ENDPOINTS = (
    *_endpoints(f"{TOPIC}/configs", "a topic"),
    *_endpoints(f"{CLUSTER}/brokers/{{broker_id}}/configs", "a broker"),
    *_endpoints(f"{CLUSTER}/broker-configs", "the cluster"),
)
