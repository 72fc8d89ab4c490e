"""DescribeGroups (key 15, versions 0–6): classic groups with their members.

v3 authorised operations (KIP-430) · v4 static members · v5 flexible · v6 GROUP_ID_NOT_FOUND with a message (KIP-1043);
before, an unknown group is described as Dead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.descriptions import DescribedClassicGroup
from headrace.handlers.dispatch.authorization import NOT_ASKED, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


_NOT_FOUND_FROM: Final = 6


@dataclass(frozen=True)
class DescribeGroups(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    versions: ClassVar[range] = range(7)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE)

    async def serve(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        asks = request.include_authorized_operations
        answers = await asyncio.gather(
            *(self._describe(g, context.version, context.access, asks_operations=asks) for g in request.groups)
        )
        return {"groups": answers}

    async def _describe(self, group_id: str, version: int, access: Access, *, asks_operations: bool) -> DescribedGroup:
        try:
            access.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
            group = await self.groups.describe_classic(group_id)
        except Fault as fault:
            return _answer(DescribedClassicGroup(group_id, "", ""), fault.code, None, NOT_ASKED)
        operations = access.operations(ResourceType.GROUP, group_id) if asks_operations else NOT_ASKED
        if group is not None:
            return _answer(group, ErrorCode.none, None, operations)
        dead = DescribedClassicGroup(group_id, "Dead", "")
        if version < _NOT_FOUND_FROM:
            return _answer(dead, ErrorCode.none, None, operations)
        return _answer(dead, ErrorCode.group_id_not_found, f"Group {group_id} not found.", NOT_ASKED)


def _answer(group: DescribedClassicGroup, error: ErrorCode, message: str | None, operations: int) -> DescribedGroup:
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": m.member_id,
                "group_instance_id": m.instance_id,
                "client_id": m.client_id,
                "client_host": m.client_host,
                "member_metadata": m.metadata,
                "member_assignment": m.assignment,
            }
            for m in group.members
        ],
        "authorized_operations": operations,
    }
