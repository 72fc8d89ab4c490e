"""kafka-configs: describe and change configurations of topics, brokers, groups, client quotas and SCRAM credentials."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.config_entities import QUOTA_ENTITIES, RESOURCES, SINGULAR, Entity, entities
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.scram_configs import alter_credentials, describe_credentials, names_scram
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_client_quotas import EntryData
    from headrace.wire.messages.answers.describe_configs import DescribeConfigsResourceResult

SET, DELETE = 0, 1
EXACT, DEFAULT, ANY = 0, 1, 2
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
QUOTAS = frozenset(
    {
        "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
        "connection_creation_rate",
    }
)  # fmt: skip
# Config source of a value that was set on the entity itself.
_OWN_SOURCE = {"topics": 1, "brokers": 2, "broker-loggers": 6, "client-metrics": 7, "groups": 8}
_DEFAULT_BROKER_SOURCE = 3

_ENTITY_OPTIONS = tuple(
    Option(name, f"The {name}'s name.", "name")
    for name in ("topic", "broker", "broker-logger", "client-metrics", "group", "user", "client", "ip")
) + tuple(Option(f"{name}-defaults", f"The default for {name}s.") for name in ("broker", "user", "client", "ip"))
OPTIONS = (
    *CONNECTION,
    Option("alter", "Change configurations."),
    Option("describe", "Show configurations."),
    Option("all", "Show every configuration, defaults too."),
    Option("entity-type", f"One of {', '.join(RESOURCES)}.", "type", repeated=True),
    Option("entity-name", "The entity's name.", "name", repeated=True),
    Option("entity-default", "The default entity of the type."),
    Option("add-config", "k1=v1,k2=[v1,v2]: brackets hold a list with commas.", "k=v,…"),
    Option("add-config-file", "A properties file of configurations to add.", "file"),
    Option("delete-config", "Names of configurations to remove.", "k1,k2", repeated=True),
    Option("force", "Accepted for old scripts; nothing is asked."),
    *_ENTITY_OPTIONS,
)


def check(arguments: Arguments) -> None:
    arguments.exactly_one("alter", "describe")
    if arguments["alter"] and not any(arguments.given(o) for o in ("add-config", "add-config-file", "delete-config")):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def parse_additions(text: str) -> dict[str, str]:
    """`a=1,b=[x,y]` → {"a": "1", "b": "x,y"}. Raises UsageError with the part that is not name=value."""
    found = {}
    for part in re.split(r",(?![^\[\]]*\])", text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"Invalid entity config: {part!r} must be name=value")
        found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found


def additions(arguments: Arguments) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.given("add-config-file"):
        from headrace.config import parse_properties

        found |= parse_properties(Path(arguments["add-config-file"]).read_text())
    if arguments.given("add-config"):
        found |= parse_additions(arguments["add-config"])
    return found


def deletions(arguments: Arguments) -> list[str]:
    return [name.strip() for group in arguments["delete-config"] for name in group.split(",") if name.strip()]


async def run(arguments: Arguments, client: ClusterClient) -> None:
    chosen = entities(arguments, sys.argv[1:])
    quotas = chosen[0].kind in QUOTA_ENTITIES
    if arguments["alter"]:
        if any(entity.name is None for entity in chosen):
            kinds = ",".join(entity.kind for entity in chosen)
            raise UsageError(f"An entity name must be specified with --alter of {kinds}")
        await (alter_quotas(arguments, client, chosen) if quotas else alter(arguments, client, chosen[0]))
        return
    await (describe_quotas(client, chosen) if quotas else describe(arguments, client, chosen[0]))


def _resource(entity: Entity) -> dict[str, object]:
    return {"resource_type": RESOURCES[entity.kind], "resource_name": entity.name or ""}


def _node(entity: Entity) -> int | None:
    """The broker to ask: a broker resource needs that broker; any broker knows the others."""
    if entity.kind not in ("brokers", "broker-loggers") or not entity.name:
        return None
    if not entity.name.isdecimal():
        raise ToolFailed(
            f"The entity name for {entity.kind} must be a valid integer broker id, but it is: {entity.name}"
        )
    return int(entity.name)


async def alter(arguments: Arguments, client: ClusterClient, entity: Entity) -> None:
    changes = [{"name": n, "config_operation": SET, "value": v} for n, v in additions(arguments).items()]
    changes += [{"name": n, "config_operation": DELETE, "value": None} for n in deletions(arguments)]
    body = {"resources": [{**_resource(entity), "configs": changes}], "validate_only": False}
    answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, node=_node(entity))
    result = answer.responses[0]
    if result.error_code:
        raise ToolFailed(answer_error(result))
    _say_done(entity)


def _say_done(entity: Entity) -> None:
    if entity.name:
        print(f"Completed updating config for {SINGULAR[entity.kind]} {entity.name}.")
    else:
        print(f"Completed updating default config for {entity.kind} in the cluster.")


async def _all_entities(client: ClusterClient, kind: str) -> list[Entity]:
    if kind == "topics":
        await client.refresh(None)
        return [Entity(kind, name) for name in client.metadata.topics]
    if kind in ("brokers", "broker-loggers"):
        nodes = [Entity(kind, str(node)) for node in sorted(client.metadata.nodes)]
        return nodes if kind == "broker-loggers" else [*nodes, Entity(kind, "")]
    answer = await client.request(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [RESOURCES[kind]]})
    names = {str(resource.resource_name) for resource in answer.config_resources}
    if kind == "groups":
        # Groups without configuration are listed too, like topics.
        from headrace.cli.kafka_tools.support.group_view import listed

        names |= {group.id for group in await listed(client)}
    return [Entity(kind, name) for name in sorted(names)]


async def describe(arguments: Arguments, client: ClusterClient, entity: Entity) -> None:
    asked = [entity] if entity.name is not None else await _all_entities(client, entity.kind)
    if entity.kind == "topics" and entity.name and entity.name not in (await client.refresh(None)).topics:
        raise ToolFailed(f"The topic '{entity.name}' doesn't exist and doesn't have dynamic config.")
    for one in asked:
        if one.name:
            print(f"{'All' if arguments['all'] else 'Dynamic'} configs for {SINGULAR[one.kind]} {one.name} are:")
        else:
            print(f"Default configs for {one.kind} in the cluster are:")
        for entry in await _entries(client, one):
            own = _OWN_SOURCE[one.kind] if one.name else _DEFAULT_BROKER_SOURCE
            if arguments["all"] or entry.config_source == own:
                print(_entry_line(entry))


async def _entries(client: ClusterClient, entity: Entity) -> list[DescribeConfigsResourceResult]:
    body = {
        "resources": [{**_resource(entity), "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": False,
    }
    answer = await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=_node(entity))
    result = answer.results[0]
    if result.error_code:
        raise ToolFailed(answer_error(result))
    return sorted(result.configs, key=lambda entry: str(entry.name))


def _entry_line(entry: DescribeConfigsResourceResult) -> str:
    value = "null" if entry.value is None else entry.value
    synonyms = ", ".join(f"{SOURCES.get(s.source, 'UNKNOWN')}:{s.name}={s.value}" for s in entry.synonyms)
    return f"  {entry.name}={value} sensitive={str(entry.is_sensitive).lower()} synonyms={{{synonyms}}}"


def _quota_entity(chosen: list[Entity]) -> list[dict[str, object]]:
    return [{"entity_type": QUOTA_ENTITIES[e.kind], "entity_name": e.wire_name} for e in chosen]


async def alter_quotas(arguments: Arguments, client: ClusterClient, chosen: list[Entity]) -> None:
    added, deleted = additions(arguments), deletions(arguments)
    if names_scram(added, deleted):
        await alter_credentials(client, chosen, added, deleted)
        _say_done(chosen[0])
        return
    if unknown := sorted(set(added) - QUOTAS):
        kinds = "', '".join(entity.kind for entity in chosen)
        raise ToolFailed(
            f"Only quota configs can be added for '{kinds}' using --bootstrap-server. "
            f"Unexpected config names: Set({', '.join(unknown)})"
        )
    known = {str(value.key) for entry in await _quotas(client, chosen) for value in entry.values}
    if absent := [name for name in deleted if name not in known]:
        raise ToolFailed(f"Invalid config(s): {','.join(absent)}")
    operations = []
    for name, value in added.items():
        try:
            operations.append({"key": name, "value": float(value), "remove": False})
        except ValueError as error:
            raise ToolFailed(f"Cannot parse quota configuration value for {name}: {value}") from error
    operations += [{"key": name, "value": 0.0, "remove": True} for name in deleted]
    body = {"entries": [{"entity": _quota_entity(chosen), "ops": operations}], "validate_only": False}
    answer = await client.to_controller(ApiKey.ALTER_CLIENT_QUOTAS, body)
    result = answer.entries[0]
    if result.error_code:
        raise ToolFailed(answer_error(result))
    _say_done(chosen[0])


async def _quotas(client: ClusterClient, chosen: list[Entity]) -> list[EntryData]:
    components = []
    for entity in chosen:
        match_type = {None: ANY, "": DEFAULT}.get(entity.name, EXACT)
        named = entity.name if match_type == EXACT else None
        components.append({"entity_type": QUOTA_ENTITIES[entity.kind], "match_type": match_type, "match": named})
    answer = await client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": components, "strict": True})
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    return list(answer.entries or ())


async def describe_quotas(client: ClusterClient, chosen: list[Entity]) -> None:
    for entry in await _quotas(client, chosen):
        order = {"user": 0, "client-id": 1, "ip": 2}
        parts = sorted(entry.entity, key=lambda e: order.get(str(e.entity_type), 9))
        named = ", ".join(_quota_name(str(e.entity_type), e.entity_name) for e in parts)
        values = ", ".join(f"{value.key}={value.value}" for value in entry.values)
        print(f"Quota configs for {named} are {values}")
    await describe_credentials(client, chosen)


def _quota_name(entity_type: str, name: str | None) -> str:
    title = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}[entity_type]
    return f"the default {title}" if name is None else f"{title} '{name}'"


TOOL = Tool(
    "Describe or change configurations of topics, brokers, groups and client quotas.",
    OPTIONS,
    run,
    failure_prefix="",
    check=check,
)

if __name__ == "__main__":
    sys.exit(TOOL.main())
