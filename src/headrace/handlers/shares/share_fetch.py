"""ShareFetch (key 78, versions 1–2): acquires records of share partitions (KIP-932).

v2 acquire mode (strict record limit) and renewal of locks (KIP-1206, KIP-1222)
The request may carry acknowledgements; the answer has separate errors for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.share import consumption
from headrace.coordinators.share.consumption import CheckTopic, PartitionAnswer
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.shares.share_answers import ShareRequests, acknowledgements_of, check_topic
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.share_fetch import (
        LeaderIdAndEpoch,
        PartitionData,
        ShareFetchRequest,
        ShareFetchResponse,
    )


_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1


@dataclass(frozen=True)
class ShareFetch(Handler):
    requests: ShareRequests

    api_key: ClassVar[ApiKey] = ApiKey.SHARE_FETCH
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.READ)

    async def serve(self, request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
        answer = await self.requests.serve(
            context,
            request.group_id,
            request.member_id,
            lambda group_id, member_id: self.requests.consumption.fetch(
                _asked(request, group_id, member_id, check_topic(self.requests.view, context.access)),
                context.when_closed,
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


def _asked(
    request: ShareFetchRequest, group_id: str, member_id: str, check: CheckTopic
) -> consumption.ShareFetchRequest:
    """Raises INVALID_REQUEST."""
    mode = request.share_acquire_mode
    if mode not in (_BATCH_OPTIMIZED, _RECORD_LIMIT):
        raise Refused(ErrorCode.invalid_request, f"share acquire mode {mode}: 0 is batch_optimized, 1 is record_limit")
    return consumption.ShareFetchRequest(
        group_id,
        member_id,
        request.share_session_epoch,
        millis(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        max(request.batch_size, 1),
        [(t.topic_id, p.partition_index) for t in request.topics if t.topic_id is not None for p in t.partitions],
        [(t.topic_id, p) for t in request.forgotten_topics_data if t.topic_id is not None for p in t.partitions],
        acknowledgements_of(request.topics),
        strict=mode == _RECORD_LIMIT,
        renews=request.is_renew_ack,
        check_topic=check,
    )


def _row(index: int, answer: PartitionAnswer, leader: LeaderIdAndEpoch) -> PartitionData:
    return {
        "partition_index": index,
        "error_code": answer.error,
        "error_message": answer.message,
        "acknowledge_error_code": answer.acknowledge_error,
        "acknowledge_error_message": answer.acknowledge_message,
        "current_leader": leader,
        "records": answer.records,
        "acquired_records": [
            {"first_offset": each.first, "last_offset": each.last, "delivery_count": each.deliveries}
            for each in answer.acquired
        ],
    }
