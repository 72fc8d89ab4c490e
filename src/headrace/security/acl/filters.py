"""Filters of DescribeAcls and DeleteAcls: which ACLs they select.

A field that is None or ANY selects every value. The pattern type MATCH selects every pattern that covers a resource of
the filter's name: the literal one, the prefixes of it, and `*`.
"""

from __future__ import annotations

from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType


@dataclass(frozen=True, slots=True)
class PatternFilter:
    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def selects(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.covers(self.name)
        return self.name == pattern.name

    @property
    def is_unknown(self) -> bool:
        return self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN


@dataclass(frozen=True, slots=True)
class EntryFilter:
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def selects(self, acl: Acl) -> bool:
        entry = acl.entry
        return (
            (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    @property
    def is_unknown(self) -> bool:
        return self.operation is Operation.UNKNOWN or self.permission is Permission.UNKNOWN


@dataclass(frozen=True, slots=True)
class AclFilter:
    pattern: PatternFilter = PatternFilter()
    entry: EntryFilter = EntryFilter()

    def selects(self, acl: Acl) -> bool:
        return self.pattern.selects(acl.pattern) and self.entry.selects(acl)
