"""What ShareFetch and ShareAcknowledge share: how they are served, refused and answered, who leads a partition now."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.cluster.core import features
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.coordinators.share.consumption import Answers, PartitionAnswer, ShareConsumption
from headrace.coordinators.share.core.share_partition import Acknowledgement
from headrace.handlers.dispatch.context import RequestContext
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused

# Kafka leaves the fields as they are when they have nothing to say.
NOBODY = {"leader_id": 0, "leader_epoch": 0}
_MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def _current_leader(
    image: ClusterImage, partition: tuple[uuid.UUID, int], errors: tuple[ErrorCode, ...], leaders: set[int]
) -> dict[str, int]:
    """Told only to a client that looks in the wrong place."""
    name = image.topic_names.get(partition[0])
    info = image.partition(name, partition[1]) if name is not None else None
    if info is None or not any(error in _MOVED for error in errors):
        return NOBODY
    leaders.add(info.leader)
    return {"leader_id": info.leader, "leader_epoch": info.leader_epoch}


def _node_endpoints(image: ClusterImage, leaders: set[int], context: RequestContext) -> list[dict[str, Any]]:
    found = []
    for broker_id in sorted(leaders):
        broker = image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if broker is not None and endpoint is not None:
            node = {"node_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
            found.append(node)
    return found


Row = Callable[[int, PartitionAnswer, dict[str, int]], dict[str, Any]]


@dataclass(frozen=True)
class ShareRequests:
    """Serves one request of a member's session; `row` says what of a partition's answer its API tells."""

    consumption: ShareConsumption
    view: ClusterView

    async def serve(
        self, request: Any, context: RequestContext, ask: Callable[[], Awaitable[Answers]], row: Row
    ) -> dict[str, Any]:
        try:
            features.require(self.view.current, features.SHARE_GROUPS)
            if not request.group_id or not request.member_id:
                raise Refused(ErrorCode.invalid_request, "a request of a share session names its group and its member")
            return self._answered(request.group_id, context, await ask(), row)
        except Fault as fault:
            return {
                "error_code": fault.code,
                "error_message": fault.message,
                "acquisition_lock_timeout": 0,
                "responses": [],
                "node_endpoints": [],
            }

    def _answered(self, group_id: str, context: RequestContext, answers: Answers, row: Row) -> dict[str, Any]:
        image = self.view.current
        leaders: set[int] = set()
        topics: dict[uuid.UUID, list[dict[str, Any]]] = {}
        for partition, answer in answers.items():
            leader = _current_leader(image, partition, (answer.error, answer.acknowledge_error), leaders)
            topics.setdefault(partition[0], []).append(row(partition[1], answer, leader))
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "acquisition_lock_timeout": self.consumption.lock_ms(group_id),
            "responses": [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()],
            "node_endpoints": _node_endpoints(image, leaders, context),
        }


def acknowledgements_of(topics: Any) -> dict[tuple[uuid.UUID, int], list[Acknowledgement]]:
    """Of every partition that is named, also of those with nothing to say."""
    return {
        (topic.topic_id, partition.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
    }
