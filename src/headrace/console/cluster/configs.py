"""Configuration of topics and brokers, as DescribeConfigs answers it, with the meaning of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.cluster_client import ClusterClient, check
from headrace.config.describe import Source
from headrace.config.keys import BROKER_KEYS, TOPIC_KEYS
from headrace.kernel.dataclass import dataclass
from headrace.wire.apis import ApiKey

TOPIC, BROKER = 2, 4
_SET, _DELETE = 0, 1
_SOURCES: Final = {
    Source.DYNAMIC_TOPIC: "this topic",
    Source.DYNAMIC_BROKER: "this broker",
    Source.DYNAMIC_DEFAULT_BROKER: "all brokers",
    Source.STATIC_BROKER: "server.properties",
    Source.DEFAULT: "default",
    Source.GROUP: "this group",
}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str
    is_set: bool
    """Set for this resource itself."""
    read_only: bool
    sensitive: bool
    doc: str
    default: str
    choices: tuple[str, ...] = ()


async def describe(client: ClusterClient, kind: int, name: str, node: int | None = None) -> list[ConfigEntry]:
    """All keys of one resource. Raises Refused."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    result = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=node)).results[0]
    check(result.error_code, result.error_message, name)
    keys = TOPIC_KEYS if kind == TOPIC else BROKER_KEYS
    own = Source.DYNAMIC_TOPIC if kind == TOPIC else Source.DYNAMIC_BROKER
    found = []
    for entry in sorted(result.configs, key=lambda entry: str(entry.name)):
        key = keys.get(str(entry.name))
        source = int(entry.config_source)
        found.append(
            ConfigEntry(
                str(entry.name), None if entry.is_sensitive else entry.value,
                _SOURCES[Source(source)] if source in set(_SOURCES) else "unknown",
                source == own, bool(entry.read_only), bool(entry.is_sensitive),
                key.doc if key is not None else "", str(key.default) if key is not None else "",
                key.choices if key is not None else (),
            )
        )  # fmt: skip
    return found


async def values(client: ClusterClient, topics: Iterable[str], keys: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Some keys of many topics by one request."""
    names = list(topics)
    if not names:
        return {}
    resources = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": list(keys)} for name in names]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    answer = await client.request(ApiKey.DESCRIBE_CONFIGS, body)
    return {
        str(result.resource_name): {str(entry.name): str(entry.value) for entry in result.configs}
        for result in answer.results
        if not result.error_code
    }


async def alter(
    client: ClusterClient, kind: int, name: str, changes: Mapping[str, str | None], node: int | None = None
) -> None:
    """Sets keys; None returns a key to its default. Raises Refused with the broker's message."""
    entries = [
        {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
        for key, value in changes.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    body = {"resources": [resource], "validate_only": False}
    result = (await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, node=node)).responses[0]
    check(result.error_code, result.error_message, name)
