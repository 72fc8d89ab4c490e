"""ShareAcknowledge (key 79, versions 1–2): records are done with, given back, refused, or needed longer (KIP-932).

v2 renewal of locks (KIP-1222). Answered when the outcome is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.share.consumption import ShareConsumption
from headrace.handlers.context import RequestContext
from headrace.handlers.share_answers import acknowledgements_of, current_leader, node_endpoints, refused
from headrace.kernel.errors import ErrorCode, Fault, Refused


@dataclass(frozen=True)
class ShareAcknowledge:
    consumption: ShareConsumption
    view: ClusterView

    api_key: ClassVar[int] = 79
    versions: ClassVar[range] = range(1, 3)

    async def __call__(self, request: Any, context: RequestContext) -> dict[str, Any]:
        try:
            return await self._serve(request, context)
        except Fault as fault:
            return refused(fault)

    async def _serve(self, request: Any, context: RequestContext) -> dict[str, Any]:
        if not request.group_id or not request.member_id:
            raise Refused(ErrorCode.invalid_request, "an acknowledgement names its group and its member")
        answers = await self.consumption.acknowledge(
            request.group_id, request.member_id, request.share_session_epoch, acknowledgements_of(request.topics)
        )
        image = self.view.current
        leaders: set[int] = set()
        topics: dict[Any, list[dict[str, Any]]] = {}
        for partition, answer in answers.items():
            error = answer.acknowledge_error or answer.error
            topics.setdefault(partition[0], []).append(
                {
                    "partition_index": partition[1],
                    "error_code": error,
                    "error_message": answer.acknowledge_message or answer.message,
                    "current_leader": current_leader(image, partition, (ErrorCode(error),), leaders),
                }
            )
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "acquisition_lock_timeout": self.consumption.lock_ms(request.group_id),
            "responses": [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()],
            "node_endpoints": node_endpoints(image, leaders, context),
        }
