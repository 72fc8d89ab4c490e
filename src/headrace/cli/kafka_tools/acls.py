"""kafka-acls: lists, adds and removes ACLs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Final

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool
from headrace.client.acls import create_acls, delete_acls, list_acls
from headrace.client.cluster_client import ClusterClient
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from headrace.security.acl.store_format import camel_case

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_OPERATIONS: Final = {camel_case(one.name).lower(): one for one in Operation if one > Operation.ANY}
_CLUSTER: Final = PatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_PATTERN_TYPES: Final = {one.name.lower(): one for one in PatternType if one is not PatternType.UNKNOWN}


def _pattern_type(text: str) -> PatternType:
    try:
        return _PATTERN_TYPES[text.lower()]
    except KeyError:
        raise ValueError(text) from None


OPTIONS = (
    *CONNECTION,
    Option("list", "List ACLs. Without a resource: the ACLs of all resources."),
    Option("add", "Add ACLs."),
    Option("remove", "Remove ACLs."),
    Option("topic", "Topic of the ACLs. '*' stands for every topic.", "topic", repeated=True),
    Option("group", "Group of the ACLs. '*' stands for every group.", "group", repeated=True),
    Option("cluster", "The cluster is the resource of the ACLs."),
    Option("transactional-id", "Transactional id of the ACLs. '*' stands for every one.", "id", repeated=True),
    Option("delegation-token", "Delegation token of the ACLs.", "token", repeated=True),
    Option("user-principal", "User whose delegation tokens the ACLs are about.", "principal", repeated=True),
    Option(
        "resource-pattern-type",
        "literal or prefixed. With --list and --remove also any (every pattern of that name) and match (every pattern "
        "that covers that name).",
        "literal, prefixed, any or match",
        kind=_pattern_type,
        default=PatternType.LITERAL,
    ),
    Option("operation", "Operation of the ACLs, such as Read. Without it: All.", "operation", repeated=True),
    Option("allow-principal", "Principal that is allowed, such as User:ann or Role:ops.", "principal", repeated=True),
    Option("deny-principal", "Principal that is denied. A denial wins over every ALLOW.", "principal", repeated=True),
    Option("allow-host", "Address or CIDR range from which it is allowed.", "host", repeated=True),
    Option("deny-host", "Address or CIDR range from which it is denied.", "host", repeated=True),
    Option("principal", "With --list: only the ACLs of this principal.", "principal", repeated=True),
    Option("producer", "The ACLs of a producer: Write, Describe and Create on the topic."),
    Option("consumer", "The ACLs of a consumer: Read and Describe on the topic, Read on the group."),
    Option("idempotent", "With --producer: IdempotentWrite on the cluster, too."),
    Option("force", "Remove without a question."),
)


def check(arguments: Arguments) -> None:
    if sum(arguments.given(action) for action in ("list", "add", "remove")) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove.")
    if arguments["principal"] and not arguments["list"]:
        raise UsageError("The --principal option is only available if --list is set")
    if arguments["producer"] and not arguments["topic"]:
        raise UsageError("With --producer you must specify a --topic")
    if arguments["idempotent"] and not arguments["producer"]:
        raise UsageError("The --idempotent option is only available if --producer is set")
    only_consumer = arguments["consumer"] and not arguments["producer"]
    if arguments["consumer"] and (
        not arguments["topic"]
        or not arguments["group"]
        or (only_consumer and (arguments["cluster"] or arguments["transactional-id"]))
    ):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    for option in ("allow-principal", "deny-principal", "principal"):
        for principal in arguments[option]:
            if ":" not in principal:
                raise UsageError(f"--{option} {principal!r}: must be a type and a name, such as User:{principal}")
    if not arguments["list"]:
        wanted = _entries_by_resource(arguments)
        if arguments["add"]:
            _check_addition(arguments, wanted.values())


def _check_addition(arguments: Arguments, entries: Iterable[Collection[Entry]]) -> None:
    pattern_type: PatternType = arguments["resource-pattern-type"]
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls.")
    if not all(entries):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    if arguments["list"]:
        await _list(arguments, client)
    elif arguments["add"]:
        await _add(arguments, client)
    else:
        await _remove(arguments, client)


# Arguments


def _resources(arguments: Arguments) -> list[PatternFilter]:
    pattern_type: PatternType = arguments["resource-pattern-type"]
    found = [
        PatternFilter(kind, name.strip(), pattern_type)
        for option, kind in _RESOURCES.items()
        for name in arguments[option]
    ]
    if pattern_type is PatternType.LITERAL and (arguments["cluster"] or arguments["idempotent"]):
        found.append(_CLUSTER)
    return list(dict.fromkeys(found))


def _entries_by_resource(arguments: Arguments) -> dict[PatternFilter, list[Entry]]:
    """The ACLs that --add creates or --remove deletes. A resource without entries means all its ACLs."""
    resources = _resources(arguments)
    if not resources:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    found: dict[PatternFilter, list[Entry]] = {}

    def grant(resource: PatternFilter, *operations: Operation) -> None:
        entries = found.setdefault(resource, [])
        entries += [entry for entry in _entries(arguments, operations) if entry not in entries]

    for resource in resources:
        kind = resource.resource_type
        if not arguments["producer"] and not arguments["consumer"]:
            grant(resource, *_given_operations(arguments, kind))
        if arguments["producer"] and kind is ResourceType.TOPIC:
            grant(resource, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        if arguments["producer"] and kind is ResourceType.TRANSACTIONAL_ID:
            grant(resource, Operation.WRITE, Operation.DESCRIBE)
        if arguments["consumer"] and kind is ResourceType.TOPIC:
            grant(resource, Operation.READ, Operation.DESCRIBE)
        if arguments["consumer"] and kind is ResourceType.GROUP:
            grant(resource, Operation.READ)
    if arguments["idempotent"]:
        grant(_CLUSTER, Operation.IDEMPOTENT_WRITE)
    return found


def _given_operations(arguments: Arguments, kind: ResourceType) -> list[Operation]:
    supported = (*SUPPORTED_OPERATIONS[kind], Operation.ALL)
    found = []
    for text in arguments["operation"] or ["All"]:
        operation = _OPERATIONS.get(text.strip().lower())
        if operation not in supported:
            names = ", ".join(one.name for one in supported)
            raise UsageError(f"ResourceType {kind.name} only supports operations [{names}], not {text!r}")
        found.append(operation)
    return found


def _entries(arguments: Arguments, operations: Iterable[Operation]) -> list[Entry]:
    return [
        Entry(principal.strip(), host.strip(), operation, permission)
        for permission, word in ((Permission.ALLOW, "allow"), (Permission.DENY, "deny"))
        for principal in arguments[f"{word}-principal"]
        for operation in operations
        for host in arguments[f"{word}-host"] or ["*"]
    ]


# Actions


async def _list(arguments: Arguments, client: ClusterClient) -> None:
    filters = [AclFilter(resource) for resource in _resources(arguments)] or [AclFilter()]
    found: dict[Acl, None] = {}
    for wanted in filters:
        found.update(dict.fromkeys(await list_acls(client, wanted)))
    principals = dict.fromkeys(arguments["principal"])
    if not principals:
        _print_acls(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_acls(acl for acl in found if acl.entry.principal == principal)


async def _add(arguments: Arguments, client: ClusterClient) -> None:
    for resource, entries in _entries_by_resource(arguments).items():
        pattern = ResourcePattern(resource.resource_type, str(resource.name), resource.pattern_type)
        there = set(await list_acls(client, AclFilter(resource)))
        wanted = [Acl(pattern, entry) for entry in entries]
        for acl in wanted:
            if acl in there:
                print(f"Acl (pattern={_pattern_text(pattern)}, entry={_entry_text(acl.entry)}) already exists.")
        new = [acl for acl in wanted if acl not in there]
        if new:
            lines = "\n".join(f"\t{_entry_text(acl.entry)}" for acl in new)
            print(f"Adding ACLs for resource `{_pattern_text(pattern)}`: \n {lines}\n")
            await create_acls(client, new)


async def _remove(arguments: Arguments, client: ClusterClient) -> None:
    for resource, entries in _entries_by_resource(arguments).items():
        where = _pattern_text(resource)
        if entries:
            lines = "\n".join(f"\t{_entry_text(entry)}" for entry in entries)
            question = f"Are you sure you want to remove ACLs: \n {lines}\n from resource filter `{where}`? (y/n)"
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{where}`? (y/n)"
        if arguments["force"] or _is_confirmed(question):
            chosen = [EntryFilter(e.principal, e.host, e.operation, e.permission) for e in entries] or [EntryFilter()]
            await delete_acls(client, [AclFilter(resource, one) for one in chosen])


def _is_confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


# Text


def _print_acls(acls: Iterable[Acl]) -> None:
    by_resource: dict[ResourcePattern, list[Entry]] = {}
    for acl in acls:
        by_resource.setdefault(acl.pattern, []).append(acl.entry)
    for pattern, entries in by_resource.items():
        print(f"Current ACLs for resource `{_pattern_text(pattern)}`:")
        print("\n".join(f"\t{_entry_text(entry)}" for entry in entries) + "\n")


def _pattern_text(pattern: ResourcePattern | PatternFilter) -> str:
    kind, name, pattern_type = pattern.resource_type.name, pattern.name, pattern.pattern_type.name
    return f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern_type})"


def _entry_text(entry: Entry) -> str:
    operation, permission = entry.operation.name, entry.permission.name
    return f"(principal={entry.principal}, host={entry.host}, operation={operation}, permissionType={permission})"


TOOL = Tool(
    "List, add and remove ACLs.", OPTIONS, run, failure_prefix="Error while executing ACL command: ", check=check
)

if __name__ == "__main__":
    sys.exit(TOOL.main())
