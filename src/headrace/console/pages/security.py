"""Users, roles, ACLs and quotas, and whether a principal may do something."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from headrace.client.acls import list_acls
from headrace.console.cluster.administration import quotas, users
from headrace.console.cluster.audit import newest_denials
from headrace.console.cluster.configs import BROKER, describe
from headrace.console.core.masking import masks_of
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.authorizer import Authorizer
from headrace.security.acl.explain import Question, explain, sentence
from headrace.security.acl.model import Acl, Entry, Operation, Permission, ResourcePattern, ResourceType
from headrace.security.acl.roles import ROLE_PREFIX, is_role

T = TypeVar("T")
_NO_AUTHORIZER: Final = (
    "The brokers have no authorizer, so every client may do everything. To protect a cluster with logins and ACLs, "
    "begin with: headrace security init"
)
_KINDS = tuple(kind.name for kind in ResourceType if kind.name not in ("UNKNOWN", "ANY"))
_OPERATIONS = tuple(operation.name for operation in Operation if operation.name not in ("UNKNOWN", "ANY", "ALL"))


async def security(visit: Visit) -> View:
    client = visit.cluster.client
    (known_users, users_error), (acls, acls_error), (known_quotas, quotas_error), audit = await asyncio.gather(
        or_reason(users(client)), or_reason(list_acls(client)), or_reason(quotas(client)), _audit_topic(visit)
    )
    hides = visit.settings.hides_values or bool(masks_of(visit.settings.masks, audit or ""))
    denied = await newest_denials(visit.cluster, audit) if audit and not hides else ()
    answer = None
    if visit.query.get("principal"):
        answer = await _explained(visit, acls or [])
    data = {
        "users": known_users,
        "users_error": users_error,
        "acls": None if acls is None else [
            {
                "principal": acl.entry.principal, "host": acl.entry.host, "operation": acl.entry.operation.name,
                "permission": acl.entry.permission.name, "resource": acl.pattern.resource_type.name.lower(),
                "name": acl.pattern.name, "pattern": acl.pattern.pattern_type.name.lower(), "sentence": sentence(acl),
            }
            for acl in acls
            if not is_role(acl.pattern)
        ],
        "acls_error": acls_error,
        "roles": None if acls is None else roles_in(acls),
        "quotas": known_quotas,
        "quotas_error": quotas_error,
        "kinds": _KINDS,
        "operations": _OPERATIONS,
        "answer": answer,
        "me": visit.caller.principal,
        "audit": audit,
        "denied": denied,
    }  # fmt: skip
    return View("security.html", "Security", data, section="security")


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    members: tuple[str, ...]
    excluded: tuple[str, ...]
    """Principals that a DENY keeps out."""
    rights: tuple[str, ...]


def roles_in(acls: list[Acl]) -> list[Role]:
    """Roles are ACLs (`security.acl.roles`): their members may act as `Role:name`, which holds the rights."""
    names = {acl.pattern.name for acl in acls if is_role(acl.pattern)}
    names |= {acl.entry.principal for acl in acls if acl.entry.principal.startswith(ROLE_PREFIX)}
    found = []
    for name in sorted(names):
        own = [acl.entry for acl in acls if is_role(acl.pattern) and acl.pattern.name == name]
        sides = {
            permission: tuple(
                sorted(
                    f"{entry.principal}{'' if entry.host == '*' else ' from ' + entry.host}"
                    for entry in own
                    if entry.permission is permission and entry.operation is Operation.ALL
                )
            )
            for permission in (Permission.ALLOW, Permission.DENY)
        }
        rights = tuple(sentence(acl) for acl in acls if acl.entry.principal == name)
        found.append(Role(name.removeprefix(ROLE_PREFIX), sides[Permission.ALLOW], sides[Permission.DENY], rights))
    return found


async def _audit_topic(visit: Visit) -> str | None:
    """The topic of denied requests; empty if the brokers keep none, None if the user may not know it."""
    nodes = visit.cluster.client.metadata.nodes
    if not nodes:
        return None
    node = next(iter(nodes))
    try:
        entries = await describe(visit.cluster.client, BROKER, str(node), node)
    except Fault:
        return None
    return next((entry.value or "" for entry in entries if entry.name == "audit.topic"), "")


async def or_reason(question: Awaitable[T]) -> tuple[T | None, str]:
    """The answer, or the broker's reason why there is none: a user may see one and not the other."""
    try:
        return await question, ""
    except Fault as fault:
        if fault.code is ErrorCode.security_disabled:
            return None, _NO_AUTHORIZER
        return None, fault.message or fault.code.name.replace("_", " ")


async def _explained(visit: Visit, acls: list[Acl]) -> dict[str, object]:
    query = visit.query
    kind, operation = query.get("kind", "").upper(), query.get("operation", "").upper()
    if kind not in _KINDS or operation not in _OPERATIONS:
        raise Rejected(400, f"{operation} on {kind}: must be a known operation and a known kind of resource")
    node = next(iter(visit.cluster.client.metadata.nodes))
    settings = {
        entry.name: entry.value or "" for entry in await describe(visit.cluster.client, BROKER, str(node), node)
    }
    by_pattern: dict[ResourcePattern, list[Entry]] = {}
    for acl in acls:
        by_pattern.setdefault(acl.pattern, []).append(acl.entry)
    authorizer = Authorizer(
        by_pattern,
        super_users=[name.strip() for name in settings.get("super.users", "").split(";")],
        allow_if_no_acl=settings.get("allow.everyone.if.no.acl.found") == "true",
    )
    name = "kafka-cluster" if kind == "CLUSTER" else query.get("name", "")
    question = Question(
        query["principal"], query.get("host") or "127.0.0.1", Operation[operation], ResourceType[kind], name
    )
    found = explain(authorizer, question)
    return {
        "allowed": found.decision.allowed,
        "sentence": found.sentence,
        "near": [f"{sentence(miss.acl)}: {miss.why}" for miss in found.near_misses],
        "enforced": bool(settings.get("authorizer.class.name")),
    }
