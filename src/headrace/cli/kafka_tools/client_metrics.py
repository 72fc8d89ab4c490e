"""kafka-client-metrics: which metrics clients push to the brokers (KIP-714)."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import new_topic_id, uuid_to_text
from headrace.wire.apis import ApiKey

_CLIENT_METRICS = 16
_SET, _DELETE = 0, 1
# Option of the tool → name of the setting.
_SETTINGS = {"metrics": "metrics", "interval": "interval.ms", "match": "match"}
OPTIONS = (
    *CONNECTION,
    Option("alter", "Create or change a subscription."),
    Option("delete", "Delete a subscription."),
    Option("describe", "Show the settings of one subscription, or of all."),
    Option("list", "List the names of the subscriptions."),
    Option("name", "Name of the subscription.", "name"),
    Option("generate-name", "Use a random name."),
    Option("metrics", "Prefixes of the names of metrics: p1,p2. Empty: the setting is reset.", "m1,m2"),
    Option("interval", "Milliseconds between two pushes. Empty: the setting is reset.", "push interval"),
    Option("match", "Which clients push: client_id=a.*,client_software_name=…. Empty: the setting is reset.", "k1=v1"),
)


def check(arguments: Arguments) -> None:
    if sum(bool(arguments[name]) for name in ("alter", "delete", "describe", "list")) != 1:
        raise UsageError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    named, generated = arguments.given("name"), bool(arguments["generate-name"])
    if arguments["alter"] and named == generated:
        raise UsageError("One of --name or --generate-name must be specified with --alter.")
    if arguments["delete"] and not named:
        raise UsageError("A client metrics resource name must be specified with --delete.")
    if arguments["alter"] and arguments.given("interval"):
        interval = str(arguments["interval"])
        if interval and not interval.isdecimal():
            raise UsageError(f"--interval {interval!r}: must be an integer, or empty to reset it")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    if arguments["list"]:
        for name in await _names(client):
            print(name)
    elif arguments["describe"]:
        await _describe(client, arguments["name"])
    elif arguments["delete"]:
        entries = await _entries(client, arguments["name"])
        await _change(client, arguments["name"], dict.fromkeys(entries))
        print(f"Deleted client metrics config for {arguments['name']}.")
    else:
        name = uuid_to_text(new_topic_id()) if arguments["generate-name"] else arguments["name"]
        given = {_SETTINGS[option]: str(arguments[option]) for option in _SETTINGS if arguments.given(option)}
        await _change(client, name, {setting: value or None for setting, value in given.items()})
        print(f"Altered client metrics config for {name}.")


async def _names(client: ClusterClient) -> list[str]:
    answer = await client.request(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [_CLIENT_METRICS]})
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    return sorted(str(resource.resource_name) for resource in answer.config_resources)


async def _describe(client: ClusterClient, name: str | None) -> None:
    names = await _names(client)
    if name is not None and name not in names:
        raise ToolFailed(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
    for one in names if name is None else [name]:
        print(f"Client metrics configs for {one} are:")
        for setting, value in sorted((await _entries(client, one)).items()):
            print(f"  {setting}={value}")


async def _entries(client: ClusterClient, name: str) -> dict[str, str]:
    resource = {"resource_type": _CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    result = (await client.request(ApiKey.DESCRIBE_CONFIGS, body)).results[0]
    if result.error_code:
        raise ToolFailed(answer_error(result))
    return {str(entry.name): "" if entry.value is None else str(entry.value) for entry in result.configs}


async def _change(client: ClusterClient, name: str, settings: dict[str, str | None]) -> None:
    changes = [
        {"name": setting, "config_operation": _DELETE if value is None else _SET, "value": value}
        for setting, value in settings.items()
    ]
    resource = {"resource_type": _CLIENT_METRICS, "resource_name": name, "configs": changes}
    body = {"resources": [resource], "validate_only": False}
    result = (await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)).responses[0]
    if result.error_code:
        raise ToolFailed(answer_error(result))


TOOL = Tool(
    "Describe and change which metrics clients push to the brokers.",
    OPTIONS,
    run,
    check=check,
    failure_prefix="Error while executing client metrics command : ",
)

if __name__ == "__main__":
    sys.exit(TOOL.main())
