"""LeaveGroup (key 13, versions 0–5): members leave, or are removed by an administrator.

v3 several members, static ones by their instance id alone (KIP-345) · v4 flexible · v5 reason (KIP-800)
Every member of the request is in the answer, known or not, because clients look for their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.classic.messages import LeavingMember, LeftMember
from headrace.coordinators.runtime.runtime import settled
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


_BATCHED_FROM: Final = 3


@dataclass(frozen=True)
class LeaveGroup(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(group=Operation.READ)

    async def serve(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        if context.version < _BATCHED_FROM:
            leaving = [LeavingMember(request.member_id)]
        else:
            leaving = [LeavingMember(m.member_id, m.group_instance_id, m.reason or "") for m in request.members]
        try:
            context.access.require(Operation.READ, ResourceType.GROUP, request.group_id)
            left: list[LeftMember] = await settled(self.groups.leave(request.group_id, leaving))
        except Fault as fault:
            return {"error_code": fault.code, "members": []}
        return {
            "error_code": left[0].error if context.version < _BATCHED_FROM else ErrorCode.none,
            "members": [
                {"member_id": m.member_id, "group_instance_id": m.instance_id, "error_code": m.error} for m in left
            ],
        }
