"""ListGroups (key 16, versions 0–5): the groups that this broker coordinates.

v3 flexible · v4 filter by state (KIP-518) · v5 types and filter by type (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@dataclass(frozen=True)
class ListGroups(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(cluster=Operation.DESCRIBE, group=Operation.DESCRIBE)

    async def serve(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        listed = await self.groups.list_groups(request.states_filter, request.types_filter)
        access = context.access
        if not access.may_cluster(Operation.DESCRIBE):
            visible = access.filter(Operation.DESCRIBE, ResourceType.GROUP, (group.group_id for group in listed))
            listed = [group for group in listed if group.group_id in visible]
        return {
            "error_code": ErrorCode.none,
            "groups": [
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "group_state": group.state,
                    "group_type": group.type,
                }
                for group in listed
            ],
        }
