"""Creation and deletion of ACLs: the checks of a request, and the changes of the image that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.cluster.core.changes import AclsSet
from headrace.cluster.core.image import ClusterImage
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.filters import AclFilter
from headrace.security.acl.hosts import parsed_range
from headrace.security.acl.model import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

# Limit of one DeleteAcls request, as in Kafka.
MAX_DELETED: Final = 10_000
# Entries of one resource are one node of the store, which holds a megabyte, and are written again in the change list.
MAX_BYTES_OF_A_RESOURCE: Final = 200_000
_BYTES_OF_AN_ENTRY: Final = 100  # without its principal and host

Acls = Mapping[ResourcePattern, Sequence[Entry]]


class AclChanges:
    """Working copy of the ACLs while a request changes them."""

    def __init__(self, image: ClusterImage) -> None:
        self._before = image.acls
        self._after: dict[ResourcePattern, tuple[Entry, ...]] = {}

    def create(self, acl: Acl) -> None:
        """Raises Refused with INVALID_REQUEST. An existing ACL changes nothing."""
        check_new(acl)
        known = self._entries(acl.pattern)
        if acl.entry in known:
            return
        entries = (*known, acl.entry)
        if size_bytes(entries) > MAX_BYTES_OF_A_RESOURCE:
            raise Refused(
                ErrorCode.invalid_request,
                f"{len(known)} ACLs of {acl.pattern.resource_type.name} {acl.pattern.name!r} fill its node in the "
                "coordination store: use a role, a prefix or an address range",
            )
        self._after[acl.pattern] = entries

    def delete(self, selected: Sequence[Acl]) -> None:
        going: dict[ResourcePattern, set[Entry]] = {}
        for acl in selected:
            going.setdefault(acl.pattern, set()).add(acl.entry)
        for pattern, entries in going.items():
            self._after[pattern] = tuple(entry for entry in self._entries(pattern) if entry not in entries)

    def changes(self) -> list[AclsSet]:
        return [
            AclsSet(pattern, entries)
            for pattern, entries in self._after.items()
            if entries != self._before.get(pattern, ())
        ]

    def _entries(self, pattern: ResourcePattern) -> tuple[Entry, ...]:
        return self._after.get(pattern, tuple(self._before.get(pattern, ())))


def size_bytes(entries: Sequence[Entry]) -> int:
    return sum(_BYTES_OF_AN_ENTRY + len(entry.principal.encode()) + len(entry.host.encode()) for entry in entries)


def check_new(acl: Acl) -> None:
    """Kafka's checks, in Kafka's order and with its messages, and one more: a host with `/` is a range of addresses."""
    pattern, entry = acl.pattern, acl.entry
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        raise _invalid("Invalid empty resource name")
    if pattern.resource_type <= ResourceType.ANY:
        raise _invalid(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern.pattern_type.name}")
    if entry.operation <= Operation.ANY:
        raise _invalid(f"Invalid operation {entry.operation.name}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        raise _invalid(f"Invalid permissionType {entry.permission.name}")
    if ":" not in entry.principal:
        raise _invalid(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if "/" in entry.host and parsed_range(entry.host) is None:
        raise _invalid(f"host {entry.host!r} is not a range of addresses such as 10.0.0.0/8 or 2001:db8::/32")


def selected(acls: Acls, wanted: AclFilter) -> Iterator[Acl]:
    for pattern, entries in acls.items():
        if wanted.pattern.selects(pattern):
            for entry in entries:
                acl = Acl(pattern, entry)
                if wanted.entry.selects(acl):
                    yield acl


def check_filter(wanted: AclFilter) -> None:
    if wanted.pattern.is_unknown:
        raise _invalid("Unknown patternFilter.")
    if wanted.entry.is_unknown:
        raise _invalid("Unknown entryFilter.")


def _invalid(why: str) -> Refused:
    return Refused(ErrorCode.invalid_request, why)
