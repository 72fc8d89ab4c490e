"""ACLs and filters of ACLs as the fields of requests hold them.

A code that this version does not know reads as UNKNOWN, and its row is refused. No valid request holds the code of
UNKNOWN itself: the connection closes, as with Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.wire.codec import MalformedRequest

if TYPE_CHECKING:
    from headrace.wire.messages.create_acls import AclCreation
    from headrace.wire.messages.delete_acls import DeleteAclsFilter
    from headrace.wire.messages.describe_acls import DescribeAclsRequest

Code = TypeVar("Code", bound=IntEnum)

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


def refuse_unknown(*codes: int) -> None:
    """Raises MalformedRequest, which closes the connection."""
    if 0 in codes:
        raise MalformedRequest("an ACL or a filter of ACLs with an element UNKNOWN")


def acl_of(row: AclCreation) -> Acl:
    pattern = ResourcePattern(
        _known(ResourceType, row.resource_type), str(row.resource_name), _known(PatternType, row.resource_pattern_type)
    )
    operation, permission = _known(Operation, row.operation), _known(Permission, row.permission_type)
    return Acl(pattern, Entry(str(row.principal), str(row.host), operation, permission))


def filter_of(row: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        PatternFilter(
            _known(ResourceType, row.resource_type_filter),
            row.resource_name_filter,
            _known(PatternType, row.pattern_type_filter),
        ),
        EntryFilter(
            row.principal_filter,
            row.host_filter,
            _known(Operation, row.operation),
            _known(Permission, row.permission_type),
        ),
    )


def _known(kind: type[Code], value: int) -> Code:
    try:
        return kind(value)
    except ValueError:
        return kind(0)
