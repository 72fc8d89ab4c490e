"""The ACLs of a cluster through its APIs: list, create, delete. Raises Refused with the broker's message."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.filters import AclFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

ANY = AclFilter()


async def list_acls(client: ClusterClient, wanted: AclFilter = ANY) -> list[Acl]:
    answer = await client.request(ApiKey.DESCRIBE_ACLS, _filter(wanted))
    _check(answer)
    return [Acl(_pattern(resource), _entry(acl)) for resource in answer.resources or () for acl in resource.acls or ()]


async def create_acls(client: ClusterClient, acls: Sequence[Acl]) -> None:
    answer = await client.to_controller(ApiKey.CREATE_ACLS, {"creations": [_creation(acl) for acl in acls]})
    for result in answer.results:
        _check(result)


async def delete_acls(client: ClusterClient, filters: Sequence[AclFilter]) -> list[Acl]:
    """Returns the deleted ACLs."""
    answer = await client.to_controller(ApiKey.DELETE_ACLS, {"filters": [_filter(one) for one in filters]})
    deleted: dict[Acl, None] = {}
    for result in answer.filter_results:
        _check(result)
        deleted.update((Acl(_pattern(row), _entry(row)), None) for row in result.matching_acls or ())
    return list(deleted)


def _check(result: Entity) -> None:
    if result.error_code:
        code = ErrorCode(result.error_code)
        raise Refused(code, str(result.error_message or code.name.replace("_", " ")))


def _filter(wanted: AclFilter) -> Body:
    pattern, entry = wanted.pattern, wanted.entry
    return {
        "resource_type_filter": int(pattern.resource_type),
        "resource_name_filter": pattern.name,
        "pattern_type_filter": int(pattern.pattern_type),
        "principal_filter": entry.principal,
        "host_filter": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }


def _creation(acl: Acl) -> Body:
    return {
        "resource_type": int(acl.pattern.resource_type),
        "resource_name": acl.pattern.name,
        "resource_pattern_type": int(acl.pattern.pattern_type),
        "principal": acl.entry.principal,
        "host": acl.entry.host,
        "operation": int(acl.entry.operation),
        "permission_type": int(acl.entry.permission),
    }


def _pattern(row: Entity) -> ResourcePattern:
    return ResourcePattern(ResourceType(row.resource_type), str(row.resource_name), PatternType(row.pattern_type))


def _entry(row: Entity) -> Entry:
    return Entry(str(row.principal), str(row.host), Operation(row.operation), Permission(row.permission_type))
