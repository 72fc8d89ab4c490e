"""ShareAcknowledge (key 79, versions 1–2): accepts, releases or rejects records, or renews their locks (KIP-932).

v2 renewal of locks (KIP-1222). Answered when the outcome is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.share.consumption import PartitionAnswer
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.shares.share_answers import ShareRequests, acknowledgements_of, check_topic
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.share_acknowledge import (
        LeaderIdAndEpoch,
        PartitionData,
        ShareAcknowledgeRequest,
        ShareAcknowledgeResponse,
    )


@dataclass(frozen=True)
class ShareAcknowledge(Handler):
    requests: ShareRequests

    api_key: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.READ)

    async def serve(self, request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
        answer = await self.requests.serve(
            context,
            request.group_id,
            request.member_id,
            lambda group_id, member_id: self.requests.consumption.acknowledge(
                group_id,
                member_id,
                request.share_session_epoch,
                acknowledgements_of(request.topics),
                renews=request.is_renew_ack,
                check_topic=check_topic(self.requests.view, context.access),
            ),
            _row,
        )
        return {
            "error_code": answer.error,
            "error_message": answer.message,
            "acquisition_lock_timeout": answer.lock_ms,
            "responses": [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in answer.rows.items()],
            "node_endpoints": answer.node_endpoints,
        }


def _row(index: int, answer: PartitionAnswer, leader: LeaderIdAndEpoch) -> PartitionData:
    return {
        "partition_index": index,
        "error_code": answer.acknowledge_error or answer.error,
        "error_message": answer.acknowledge_message or answer.message,
        "current_leader": leader,
    }
