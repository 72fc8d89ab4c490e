"""ShareAcknowledge (key 79, versions 1–2): records are done with, given back, refused, or needed longer (KIP-932).

v2 renewal of locks (KIP-1222). Answered when the outcome is durable.
"""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.coordinators.share.consumption import PartitionAnswer
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.shares.share_answers import ShareRequests, acknowledgements_of
from headrace.kernel.dataclass import dataclass
from headrace.wire.apis import ApiKey


@dataclass(frozen=True)
class ShareAcknowledge(Handler):
    requests: ShareRequests

    api_key: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    versions: ClassVar[range] = range(1, 3)

    async def serve(self, request: Any, context: RequestContext) -> dict[str, Any]:
        return await self.requests.serve(
            request,
            context,
            lambda: self.requests.consumption.acknowledge(
                request.group_id,
                request.member_id,
                request.share_session_epoch,
                acknowledgements_of(request.topics),
                renews=getattr(request, "is_renew_ack", False),
            ),
            _row,
        )


def _row(index: int, answer: PartitionAnswer, leader: dict[str, int]) -> dict[str, Any]:
    return {
        "partition_index": index,
        "error_code": answer.acknowledge_error or answer.error,
        "error_message": answer.acknowledge_message or answer.message,
        "current_leader": leader,
    }
