"""Why a request is allowed or denied: the rule that decided, or the ACL that is missing.

The authorizer's decision names the deciding ACL. A denial without one needs more: which ACLs of the resource almost
allow the request, and what differs (the principal, the operation or the host).
"""

from __future__ import annotations

from headrace.kernel.dataclass import dataclass
from headrace.security.acl.authorizer import Authorizer, Decision, Reason
from headrace.security.acl.hosts import covers
from headrace.security.acl.model import (
    ALLOWED_BY,
    SUPPORTED_OPERATIONS,
    Acl,
    Entry,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)


@dataclass(frozen=True, slots=True)
class Question:
    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that almost allows the request, and the difference."""

    acl: Acl
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    decision: Decision
    sentence: str
    near_misses: tuple[NearMiss, ...] = ()
    missing: Acl | None = None
    """The ACL that would allow the request; none where the request is allowed or an ACL denies it."""


def explain(authorizer: Authorizer, asked: Question) -> Explanation:
    decision = authorizer.decide(asked.principal, asked.host, asked.operation, asked.resource_type, asked.name)
    who = _principal(authorizer, asked)
    what = f"{asked.operation.name} on {resource(asked.resource_type, asked.name)}"
    if asked.operation not in SUPPORTED_OPERATIONS[asked.resource_type]:
        kind = words(asked.resource_type)
        known = ", ".join(one.name for one in SUPPORTED_OPERATIONS[asked.resource_type])
        return Explanation(decision, f"A {kind} has no operation {asked.operation.name}; it has {known}.")
    if decision.reason is Reason.SUPER_USER:
        return Explanation(decision, f"{who} may {what}, because it is a super user.")
    if decision.reason is Reason.NO_ACL_ALLOWS:
        return Explanation(decision, f"{who} may {what}: no ACL covers it, and allow.everyone.if.no.acl.found is true.")
    if decision.acl is not None:
        may = "may" if decision.allowed else "may not"
        return Explanation(decision, f"{who} {may} {what}. The rule that decides: {sentence(decision.acl)}.")
    missing = Acl(
        ResourcePattern(asked.resource_type, asked.name),
        Entry(asked.principal, "*", asked.operation, Permission.ALLOW),
    )
    return Explanation(decision, f"{who} may not {what}: no ACL allows it.", _near_misses(authorizer, asked), missing)


def _principal(authorizer: Authorizer, asked: Question) -> str:
    held = sorted(name for name in authorizer.principals(asked.principal, asked.host) if name.startswith("Role:"))
    return f"{asked.principal} ({', '.join(held)})" if held else asked.principal


def _near_misses(authorizer: Authorizer, asked: Question) -> tuple[NearMiss, ...]:
    principals = authorizer.principals(asked.principal, asked.host)
    found = []
    for acl in authorizer.acls_covering(asked.resource_type, asked.name):
        entry = acl.entry
        if entry.permission is not Permission.ALLOW:
            continue
        is_its_own = entry.principal in principals
        if is_its_own and not covers(entry.host, asked.host) and entry.operation in ALLOWED_BY[asked.operation]:
            found.append(NearMiss(acl, f"it holds for clients at {entry.host}, not at {asked.host}"))
        elif is_its_own and entry.operation not in ALLOWED_BY[asked.operation]:
            found.append(NearMiss(acl, f"it allows {entry.operation.name}, not {asked.operation.name}"))
        elif entry.principal.lower() == asked.principal.lower() and not is_its_own:
            found.append(NearMiss(acl, f"its principal is spelled {entry.principal}"))
    return tuple(found)


def words(resource_type: ResourceType) -> str:
    return resource_type.name.lower().replace("_", " ")


def resource(resource_type: ResourceType, name: str) -> str:
    return "the cluster" if resource_type is ResourceType.CLUSTER else f"{words(resource_type)} {name}"


def sentence(acl: Acl) -> str:
    """`ALLOW READ on topics that begin with app- for User:ann from every host`."""
    pattern, entry = acl.pattern, acl.entry
    kind = words(pattern.resource_type)
    if pattern.resource_type is ResourceType.CLUSTER:
        where = "the cluster"
    elif pattern.pattern_type.name == "PREFIXED":
        where = f"every {kind} that begins with {pattern.name}"
    else:
        where = f"every {kind}" if pattern.name == "*" else f"{kind} {pattern.name}"
    host = "every host" if entry.host == "*" else entry.host
    return f"{entry.permission.name} {entry.operation.name} on {where} for {entry.principal} from {host}"
