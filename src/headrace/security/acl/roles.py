"""Roles: principals `Role:name` that hold ACLs for their members.

Kafka has no API for roles, so membership is an ACL too: an entry with operation ALL on the literal resource
`User:Role:name` (resource type USER, name `Role:name`) makes its principal a member of the role. It means that the
principal may act as `Role:name`. So every Kafka client can manage roles, membership may depend on the client's address,
a DENY excludes a member, and one store holds everything. A wildcard or a prefix makes no principal a member: such ACLs
may be about delegation tokens of users. Roles do not nest.

A member is a user (`User:ann`), every user (`User:*`), or a claim of an OAUTHBEARER token (`Claim:groups=analysts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.security.acl.hosts import covers
from headrace.security.acl.model import (
    ANY_USER,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ROLE_PREFIX: Final = "Role:"


def is_role(pattern: ResourcePattern) -> bool:
    return (
        pattern.resource_type is ResourceType.USER
        and pattern.pattern_type is PatternType.LITERAL
        and pattern.name.startswith(ROLE_PREFIX)
    )


def role_pattern(role: str) -> ResourcePattern:
    """`role` with its prefix, as in `Role:analysts`."""
    return ResourcePattern(ResourceType.USER, role)


def membership(principal: str) -> Entry:
    return Entry(principal, "*", Operation.ALL, Permission.ALLOW)


def roles_of(
    principal: str, host: str, roles: Mapping[str, Sequence[Entry]], claims: Sequence[str] = ()
) -> tuple[str, ...]:
    """The roles of a client, as principals. `roles`: the entries of every role's resource, by the role's principal.
    `claims`: those of its token, as principals."""
    held = frozenset((principal, ANY_USER, *claims))
    return tuple(role for role, entries in roles.items() if _is_member(held, host, entries))


def _is_member(held: frozenset[str], host: str, entries: Sequence[Entry]) -> bool:
    found = {
        entry.permission
        for entry in entries
        if entry.operation is Operation.ALL and entry.principal in held and covers(entry.host, host)
    }
    return Permission.ALLOW in found and Permission.DENY not in found
