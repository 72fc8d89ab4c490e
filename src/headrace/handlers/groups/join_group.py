"""JoinGroup (key 11, versions 0–9): become a member; answered when all members have joined.

v1 rebalance timeout · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 static members (KIP-345) · v6 flexible · v7 protocol type,
nullable protocol name · v8 reason (KIP-800) · v9 skip assignment (KIP-814)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.classic.messages import JoinReply, JoinRequest
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


_KNOWN_MEMBER_ID_FROM: Final = 4
_NULL_PROTOCOL_NAME_FROM: Final = 7
_SKIP_ASSIGNMENT_FROM: Final = 9


@dataclass(frozen=True)
class JoinGroup(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    versions: ClassVar[range] = range(10)
    needs: ClassVar[Needs] = Needs(group=Operation.READ)

    async def serve(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        version = context.version
        session_timeout_ms = millis(request.session_timeout)
        try:
            context.access.require(Operation.READ, ResourceType.GROUP, request.group_id)
            reply = await self.groups.join(
                JoinRequest(
                    request.group_id,
                    request.member_id,
                    request.group_instance_id,
                    context.client_id or "",
                    f"/{context.peer_host}",
                    session_timeout_ms,
                    millis(request.rebalance_timeout) if version >= 1 else session_timeout_ms,
                    request.protocol_type,
                    tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
                    requires_known_member_id=version >= _KNOWN_MEMBER_ID_FROM,
                    can_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
                    reason=request.reason or "",
                )
            )
        except Fault as fault:
            reply = JoinReply(request.member_id, fault.code)
        no_protocol = None if version >= _NULL_PROTOCOL_NAME_FROM else ""
        return {
            "error_code": reply.error,
            "generation_id": reply.generation,
            "protocol_type": reply.protocol_type,
            "protocol_name": reply.protocol_name or no_protocol,
            "leader": reply.leader,
            "skip_assignment": reply.skip_assignment,
            "member_id": reply.member_id,
            "members": [
                {"member_id": m.member_id, "group_instance_id": m.instance_id, "metadata": m.metadata}
                for m in reply.members
            ],
        }
