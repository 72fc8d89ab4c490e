"""Heartbeat (key 12, versions 0–4): keeps a member of a classic group alive; the answer asks it to rejoin.

v3 static members · v4 flexible
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@dataclass(frozen=True)
class Heartbeat(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[range] = range(5)
    needs: ClassVar[Needs] = Needs(group=Operation.READ)

    def serve(
        self, request: HeartbeatRequest, context: RequestContext
    ) -> HeartbeatResponse | Coroutine[None, None, HeartbeatResponse]:
        try:
            context.access.require(Operation.READ, ResourceType.GROUP, request.group_id)
            reply = self.groups.heartbeat(
                request.group_id, request.member_id, request.group_instance_id, request.generation_id
            )
        except Fault as fault:
            return _answer(fault)
        return {"error_code": reply} if isinstance(reply, ErrorCode) else _later(reply)


async def _later(reply: asyncio.Future[ErrorCode]) -> HeartbeatResponse:
    try:
        return {"error_code": await reply}
    except Fault as fault:
        return _answer(fault)


def _answer(fault: Fault) -> HeartbeatResponse:
    # While the group loads no member expires: the answer has no error.
    loading = fault.code is ErrorCode.coordinator_load_in_progress
    return {"error_code": ErrorCode.none if loading else fault.code}
