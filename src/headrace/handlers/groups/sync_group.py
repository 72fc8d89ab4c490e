"""SyncGroup (key 14, versions 0–5): the leader sends the assignment, each member gets its own.

v3 static members · v4 flexible · v5 protocol type and name, which must be given and be the
group's (KIP-559)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.classic.messages import SyncReply, SyncRequest
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


_PROTOCOL_FROM: Final = 5


@dataclass(frozen=True)
class SyncGroup(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(group=Operation.READ)

    async def serve(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        if context.version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            return {
                "error_code": ErrorCode.inconsistent_group_protocol,
                "protocol_type": None,
                "protocol_name": None,
                "assignment": b"",
            }
        try:
            context.access.require(Operation.READ, ResourceType.GROUP, request.group_id)
            reply = await self.groups.sync(
                SyncRequest(
                    request.group_id,
                    request.generation_id,
                    request.member_id,
                    request.group_instance_id,
                    request.protocol_type,
                    request.protocol_name,
                    tuple((a.member_id, bytes(a.assignment)) for a in request.assignments),
                )
            )
        except Fault as fault:
            # A sync cannot wait while the coordinator loads: the member joins again.
            loading = fault.code is ErrorCode.coordinator_load_in_progress
            reply = SyncReply(ErrorCode.rebalance_in_progress if loading else fault.code)
        return {
            "error_code": reply.error,
            "protocol_type": reply.protocol_type,
            "protocol_name": reply.protocol_name,
            "assignment": reply.assignment,
        }
