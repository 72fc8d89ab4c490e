"""ShareGroupHeartbeat (key 76, version 1): members of share groups (KIP-932). Epoch 0 joins, -1 leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, ShareHeartbeatRequest
from headrace.coordinators.share.membership import ShareMembership
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.heartbeat_answers import heartbeat_answer, require_member
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@dataclass(frozen=True)
class ShareGroupHeartbeat(Handler):
    members: ShareMembership

    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_HEARTBEAT
    versions: ClassVar[range] = range(1, 2)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.DESCRIBE)

    async def serve(self, request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareGroupHeartbeatResponse:
        return await heartbeat_answer(self._beat(request, context))

    async def _beat(self, request: ShareGroupHeartbeatRequest, context: RequestContext) -> HeartbeatReply:
        require_member(context.access, request.group_id, request.subscribed_topic_names)
        return await self.members.heartbeat(
            ShareHeartbeatRequest(
                request.group_id,
                request.member_id,
                request.member_epoch,
                context.client_id or "",
                f"/{context.peer_host}",
                request.rack_id,
                request.subscribed_topic_names,
            )
        )
