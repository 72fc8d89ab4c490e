"""Resources of ACLs on the command line: `topic/orders`, `topic/app-*` (a prefix), `group/*` (all), `cluster`."""

from __future__ import annotations

import shlex
from typing import Final

import typer

from headrace.cli.support.spelling import nearest
from headrace.security.acl.model import CLUSTER_NAME, Acl, Operation, PatternType, ResourcePattern, ResourceType
from headrace.security.acl.roles import is_role

_KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_OPERATIONS: Final = {one.name: one for one in Operation if one > Operation.ANY}


def parse_resource(text: str) -> ResourcePattern:
    """Raises BadParameter."""
    kind, slash, name = text.partition("/")
    if kind not in _KINDS:
        raise typer.BadParameter(f"{text!r}: must be TYPE/NAME with one of {', '.join(_KINDS)}.{nearest(kind, _KINDS)}")
    resource_type = _KINDS[kind]
    if resource_type is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise typer.BadParameter(f"{text!r}: there is one cluster, so write cluster")
        return ResourcePattern(resource_type, CLUSTER_NAME)
    if not slash or not name:
        raise typer.BadParameter(f"{text!r}: must be TYPE/NAME, such as {kind}/orders, {kind}/app-* or {kind}/*")
    if name.endswith("*") and name != "*":
        return ResourcePattern(resource_type, name[:-1], PatternType.PREFIXED)
    return ResourcePattern(resource_type, name)


def resource_text(pattern: ResourcePattern) -> str:
    if pattern.resource_type is ResourceType.CLUSTER:
        return "cluster"
    tail = "*" if pattern.pattern_type is PatternType.PREFIXED else ""
    return f"{_NAMES[pattern.resource_type]}/{pattern.name}{tail}"


def parse_operation(text: str) -> Operation:
    name = text.strip().upper().replace("-", "_")
    by_name = {**_OPERATIONS, **{key.replace("_", ""): one for key, one in _OPERATIONS.items()}}
    if name not in by_name:
        raise typer.BadParameter(f"operation {text!r}: must be one of {', '.join(_OPERATIONS)}")
    return by_name[name]


def parse_principal(text: str) -> str:
    if ":" not in text:
        raise typer.BadParameter(f"principal {text!r}: must be a type and a name, such as User:{text}")
    return text


def row(acl: Acl) -> dict[str, str]:
    entry = acl.entry
    return {
        "resource": resource_text(acl.pattern),
        "principal": entry.principal,
        "permission": entry.permission.name,
        "operation": "MEMBER" if is_role(acl.pattern) and entry.operation is Operation.ALL else entry.operation.name,
        "host": entry.host,
    }


def grant_command(acl: Acl) -> str:
    """The `headrace acl add` command that creates the ACL."""
    entry = acl.entry
    deny = ["--deny"] if entry.permission.name == "DENY" else []
    host = [] if entry.host == "*" else ["--host", entry.host]
    # Quoted: names may contain blanks and characters that a shell would expand.
    words = ["headrace", "acl", "add", entry.principal, entry.operation.name, resource_text(acl.pattern), *deny, *host]
    return shlex.join(words)
