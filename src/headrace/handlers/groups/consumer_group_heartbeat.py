"""ConsumerGroupHeartbeat (key 68, versions 0–1): the new consumer protocol (KIP-848).

v0 the coordinator makes the member id · v1 the client does, and may subscribe by a regular expression
Epoch 0 joins, -1 leaves, -2 leaves temporarily (static members).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, HeartbeatRequest
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.heartbeat_answers import heartbeat_answer, require_member
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )


@dataclass(frozen=True)
class ConsumerGroupHeartbeat(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.DESCRIBE)

    async def serve(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        return await heartbeat_answer(self._beat(request, context))

    async def _beat(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatReply:
        require_member(context.access, request.group_id, request.subscribed_topic_names)
        owned = request.topic_partitions
        return await self.groups.consumer_heartbeat(
            HeartbeatRequest(
                request.group_id,
                request.member_id,
                request.member_epoch,
                context.client_id or "",
                f"/{context.peer_host}",
                request.instance_id,
                request.rack_id,
                millis(request.rebalance_timeout),
                request.subscribed_topic_names,
                request.subscribed_topic_regex,
                request.server_assignor,
                None
                if owned is None
                else {t.topic_id: frozenset(t.partitions) for t in owned if t.topic_id is not None},
                partial(context.access.filter, Operation.DESCRIBE, ResourceType.TOPIC),
            ),
            context.version,
        )
