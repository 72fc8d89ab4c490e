"""DeleteGroups (key 42, versions 0–2): deletes groups without members, with their offsets. v2 flexible."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.share.administration import ShareAdministration
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


@dataclass(frozen=True)
class DeleteGroups(Handler):
    groups: GroupCoordinator
    shares: ShareAdministration

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(group=Operation.DELETE)

    async def serve(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        names = list(dict.fromkeys(request.groups_names))
        errors = await asyncio.gather(*(self._delete(name, context.access) for name in names))
        return {"results": [{"group_id": name, "error_code": error} for name, error in zip(names, errors, strict=True)]}

    async def _delete(self, group_id: str, access: Access) -> ErrorCode:
        try:
            access.require(Operation.DELETE, ResourceType.GROUP, group_id)
            if not await self.groups.is_share_group(group_id):
                return await self.groups.delete_group(group_id)
            await self.shares.delete_group(group_id)
            return ErrorCode.none
        except Fault as fault:
            return fault.code
