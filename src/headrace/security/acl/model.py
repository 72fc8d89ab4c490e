"""Kafka's model of access control: an ACL allows or denies a principal one operation on the resources of a pattern.

The numbers are the codes of Kafka's protocol. Operations hash as plain integers, because the authorizer's cache hashes
two of them for every check.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from headrace.kernel.dataclass import dataclass

# As a host: every address. As the name of a LITERAL pattern: every resource of the type.
WILDCARD: Final = "*"
ANY_USER: Final = "User:*"
# The only name that a resource of type CLUSTER has.
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    __hash__ = int.__hash__


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in a filter: every pattern
    MATCH = 2  # in a filter: every pattern that covers the resource of that name
    LITERAL = 3
    PREFIXED = 4

    __hash__ = int.__hash__


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    __hash__ = int.__hash__


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    __hash__ = int.__hash__


_O = Operation

# Operations that exist for a type of resource, in the order in which Kafka lists them.
SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DESCRIBE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
        _O.ALTER,
        _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}

# An ALLOW of the operations on the right allows the one on the left. A DENY covers nothing but its own operation.
ALLOWED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    **{operation: frozenset((operation, _O.ALL)) for operation in Operation},
    _O.DESCRIBE: frozenset((_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER, _O.ALL)),
    _O.DESCRIBE_CONFIGS: frozenset((_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL)),
}


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resources that an ACL covers: one name, a prefix of names, or every name (`*`)."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@dataclass(frozen=True, slots=True)
class Entry:
    """An ACL without its resource."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


@dataclass(frozen=True, slots=True)
class Acl:
    pattern: ResourcePattern
    entry: Entry

    def __str__(self) -> str:
        """As Kafka's authorizer log shows it."""
        pattern, entry = self.pattern, self.entry
        return (
            f"StandardAcl(resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
            f"patternType={pattern.pattern_type.name}, principal={entry.principal}, host={entry.host}, "
            f"operation={entry.operation.name}, permissionType={entry.permission.name})"
        )
