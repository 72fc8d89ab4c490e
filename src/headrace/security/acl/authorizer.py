"""The decision: may this principal, from this host, do this operation on this resource?

Kafka's rules (StandardAuthorizer), in this order:

1. a super user may do everything;
2. an ACL that denies the operation to the principal wins over every other ACL;
3. an ACL that allows it, allows it; Read, Write, Delete and Alter include Describe, AlterConfigs includes
   DescribeConfigs, All includes every operation, and only for ALLOW;
4. without such an ACL the answer is no, unless `allow.everyone.if.no.acl.found` is set and no ACL at all, of whatever
   principal, covers the resource.

An `Authorizer` never changes. A new cluster image makes a new one with an empty cache, so no decision outlives the ACLs
that it was made from. Names come from clients: the cache is emptied when it is full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from enum import Enum
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.security.acl import roles
from headrace.security.acl.hosts import covers
from headrace.security.acl.model import (
    ALLOWED_BY,
    ANY_USER,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

MAX_CACHED: Final = 100_000
# Different sets of claims with an authorizer of their own.
MAX_CLAIM_SETS: Final = 100

# Kafka checks this name first when it asks for "any resource of the type".
_ANY_NAME: Final = "hardcode"


class Reason(Enum):
    """The rule that decided. The values are Kafka's words in the authorizer log."""

    SUPER_USER = "SuperUser"
    ACL = "MatchingAcl"
    NO_ACL_ALLOWS = "DefaultAllow"
    NO_ACL_DENIES = "DefaultDeny"


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: Reason
    acl: Acl | None = None
    """The ACL that decided, with `Reason.ACL`."""

    @property
    def rule(self) -> str:
        """As Kafka's authorizer log shows it."""
        return f"MatchingAcl(acl={self.acl})" if self.reason is Reason.ACL else self.reason.value


_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_DEFAULT_ALLOW: Final = Decision(True, Reason.NO_ACL_ALLOWS)
_DEFAULT_DENY: Final = Decision(False, Reason.NO_ACL_DENIES)


class _Patterns:
    """The ACLs of one resource type, found by name: an exact name, each prefix of it, and `*`."""

    def __init__(self) -> None:
        self._literal: dict[str, tuple[Acl, ...]] = {}
        self._prefixed: dict[str, tuple[Acl, ...]] = {}
        self._lengths: list[int] = []  # of the prefixes, longest first

    def add(self, pattern: ResourcePattern, entries: Iterable[Entry]) -> None:
        acls = tuple(Acl(pattern, entry) for entry in entries)
        if pattern.pattern_type is PatternType.PREFIXED:
            self._prefixed[pattern.name] = acls
            self._lengths = sorted({*self._lengths, len(pattern.name)}, reverse=True)
        else:
            self._literal[pattern.name] = acls

    def covering(self, name: str) -> Iterator[Acl]:
        yield from self._literal.get(name, ())
        size = len(name)
        for length in self._lengths:
            if length <= size:
                yield from self._prefixed.get(name[:length], ())
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, ())

    def __iter__(self) -> Iterator[Acl]:
        for table in (self._literal, self._prefixed):
            for acls in table.values():
                yield from acls


class Authorizer:
    """`acls`: the entries by resource, as the cluster image holds them. `is_loaded`: False before the first image is
    known, when only super users may do anything."""

    def __init__(
        self,
        acls: Mapping[ResourcePattern, Iterable[Entry]],
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
        is_loaded: bool = True,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._without_acl = _DEFAULT_ALLOW if allow_if_no_acl and is_loaded else _DEFAULT_DENY
        self._patterns: defaultdict[ResourceType, _Patterns] = defaultdict(_Patterns)
        self._roles: dict[str, tuple[Entry, ...]] = {}
        self._claims: tuple[str, ...] = ()
        self._with_claims: dict[tuple[str, ...], Authorizer] = {}
        self._cached: dict[tuple[str, str, Operation, ResourceType, str], Decision] = {}
        self._cached_any: dict[tuple[str, str, Operation, ResourceType], bool] = {}
        for pattern, entries in acls.items():
            if roles.is_role(pattern):
                self._roles[pattern.name] = tuple(entries)
            self._patterns[pattern.resource_type].add(pattern, entries)

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        decision = self._cached.get((principal, host, operation, resource_type, name))
        if decision is None:
            decision = self.decide(principal, host, operation, resource_type, name)
        return decision.allowed

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """The decision and its reason."""
        key = (principal, host, operation, resource_type, name)
        decision = self._cached.get(key)
        if decision is None:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            decision = self._cached[key] = self._decide(principal, host, operation, resource_type, name)
        return decision

    def allows_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do the operation on at least one resource of the type, existing or not."""
        key = (principal, host, operation, resource_type)
        found = self._cached_any.get(key)
        if found is None:
            if len(self._cached_any) >= MAX_CACHED:
                self._cached_any.clear()
            found = self._cached_any[key] = self._decide_any(principal, host, operation, resource_type)
        return found

    def with_claims(self, claims: tuple[str, ...]) -> Authorizer:
        """The decisions for clients whose tokens have these claims. They have a cache of their own, because two tokens
        of one user may have different claims."""
        if not claims:
            return self
        found = self._with_claims.get(claims)
        if found is None:
            if len(self._with_claims) >= MAX_CLAIM_SETS:
                self._with_claims.clear()
            found = self._with_claims[claims] = copy(self)
            found._claims, found._cached, found._cached_any, found._with_claims = claims, {}, {}, {}
        return found

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that the principal may do, as the bits of Kafka's authorizedOperations fields."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def principals(self, principal: str, host: str) -> frozenset[str]:
        """The principals whose ACLs apply to a client: its own, every user, and its roles."""
        return frozenset((principal, ANY_USER, *roles.roles_of(principal, host, self._roles, self._claims)))

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def acls_covering(self, resource_type: ResourceType, name: str) -> list[Acl]:
        return list(self._patterns[resource_type].covering(name))

    def _decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        if principal in self._super_users:
            return _SUPER_USER
        principals = self.principals(principal, host)
        allowing = ALLOWED_BY[operation]
        decided, nothing_covers = None, True
        for acl in self._patterns[resource_type].covering(name):
            nothing_covers = False
            entry = acl.entry
            if entry.principal not in principals or not covers(entry.host, host):
                continue
            if entry.permission is Permission.DENY:
                if entry.operation in (operation, Operation.ALL):
                    return Decision(False, Reason.ACL, acl)
            elif decided is None and entry.operation in allowing:
                decided = Decision(True, Reason.ACL, acl)
        if decided is not None:
            return decided
        return self._without_acl if nothing_covers else _DEFAULT_DENY

    def _decide_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """As Kafka decides it: an allowed pattern counts unless a DENY of the same literal, of a prefix of it, or of
        everything takes it away. Included operations (Describe by Read) do not count here."""
        if self._decide(principal, host, operation, resource_type, _ANY_NAME).allowed:
            return True
        principals = self.principals(principal, host)
        patterns: dict[Permission, set[ResourcePattern]] = {Permission.ALLOW: set(), Permission.DENY: set()}
        for acl in self._patterns[resource_type]:
            entry = acl.entry
            if (
                entry.operation in (operation, Operation.ALL)
                and entry.principal in principals
                and covers(entry.host, host)
            ):
                patterns[entry.permission].add(acl.pattern)
        everything = ResourcePattern(resource_type, WILDCARD)
        denied = patterns[Permission.DENY]
        if everything in denied:
            return False
        if everything in patterns[Permission.ALLOW]:
            return True
        prefixes = {pattern.name for pattern in denied if pattern.pattern_type is PatternType.PREFIXED}
        return any(
            not (pattern in denied and pattern.pattern_type is PatternType.LITERAL)
            and not any(pattern.name[:length] in prefixes for length in range(1, len(pattern.name) + 1))
            for pattern in patterns[Permission.ALLOW]
        )
