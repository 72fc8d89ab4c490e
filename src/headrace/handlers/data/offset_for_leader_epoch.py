"""OffsetForLeaderEpoch (key 23, versions 2–4): end offset of an epoch, for the truncation of a follower.

v2  current leader epoch of the caller (KIP-320) · v3 replica id · v4 flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Needs, denied
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.offset_for_leader_epoch import (
        EpochEndOffset,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderPartition,
    )


@dataclass(frozen=True)
class OffsetForLeaderEpoch(Handler):
    partitions: Partitions

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    versions: ClassVar[range] = range(2, 5)
    needs: ClassVar[Needs] = Needs(topic=Operation.DESCRIBE, cluster=Operation.CLUSTER_ACTION)

    def serve(self, request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
        access = context.access
        asks_as_broker = access.may_cluster(Operation.CLUSTER_ACTION)
        visible = {
            topic.topic
            for topic in request.topics
            if asks_as_broker or access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        }
        return {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [self._answer(topic.topic, one, topic.topic in visible) for one in topic.partitions],
                }
                for topic in request.topics
            ]
        }

    def _answer(self, topic: str, question: OffsetForLeaderPartition, is_visible: bool) -> EpochEndOffset:
        try:
            if not is_visible:
                raise denied(ResourceType.TOPIC)
            # A follower compares epochs first: a newer epoch in the request is an error of its own, before NOT_LEADER.
            partition = self.partitions.held(topic, question.partition)
            epoch, end_offset = partition.end_offset_for_epoch(question.leader_epoch, question.current_leader_epoch)
        except Fault as fault:
            return {"partition": question.partition, "error_code": int(fault.code)}
        return {"partition": question.partition, "error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
