"""kafka-acls: lists access rules; without an authorizer the broker says so, and nothing can be listed or changed."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

ANY = 1
_PRINCIPALS = ("allow-principal", "deny-principal", "principal", "allow-host", "deny-host", "operation")
_RESOURCES = (
    "topic",
    "group",
    "cluster",
    "transactional-id",
    "delegation-token",
    "user-principal",
    "resource-pattern-type",
)
OPTIONS = (
    *CONNECTION,
    Option("list", "List the rules."),
    Option("add", "Add rules."),
    Option("remove", "Remove rules."),
    *(
        Option(name, f"The {name.replace('-', ' ')}.", "name", repeated=True)
        for name in (*_PRINCIPALS, *_RESOURCES)
        if name != "cluster"
    ),
    *(Option(name, f"Shorthand for {name}s.") for name in ("cluster", "producer", "consumer", "idempotent", "force")),
)


def check(arguments: Arguments) -> None:
    if sum(arguments.given(action) for action in ("list", "add", "remove")) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove.")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    body = {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    answer = await client.request(ApiKey.DESCRIBE_ACLS, body)
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    if not arguments["list"]:
        raise ToolFailed("rules can be listed here, not changed: use a client of the cluster's own security provider")
    for resource in answer.resources:
        print(f"Current ACLs for resource type {resource.resource_type} named {resource.resource_name}:")
        for acl in resource.acls:
            what = f"operation={acl.operation}, permission={acl.permission_type}"
            print(f" \t(principal={acl.principal}, host={acl.host}, {what})")


TOOL = Tool("List access rules.", OPTIONS, run, failure_prefix="Error while executing ACL command: ", check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())
