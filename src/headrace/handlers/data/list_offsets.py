"""ListOffsets (key 2, versions 1–11): first and last offset of a partition, or the offset at a time.

v1  one offset per partition · v2 isolation level · v4 leader epoch (KIP-320) · v6 flexible · v7 max timestamp (KIP-734)
v8  earliest local · v9 latest tiered (KIP-1005) · v10 timeout · v11 earliest pending upload (KIP-1023)
Not implemented: tiered storage. Requests for tiered offsets get the answer of a Kafka without it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsPartitionResponse,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopicResponse,
    )


# Special timestamps, and the first version that supports them.
_KNOWN_FROM: Final = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
_CONSUMER: Final = -1
_DEBUGGER: Final = -2


@dataclass(frozen=True)
class ListOffsets(Handler):
    partitions: Partitions

    api_key: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    versions: ClassVar[range] = range(1, 12)
    needs: ClassVar[Needs] = Needs(topic=Operation.DESCRIBE)

    def serve(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        isolation, asker = request.isolation_level, request.replica_id
        asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
        topics: list[ListOffsetsTopicResponse] = []
        for topic in request.topics:
            if not context.access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                denied = int(ErrorCode.topic_authorization_failed)
                rows = [_failed(p.partition_index, denied) for p in topic.partitions]
                topics.append({"name": topic.name, "partitions": rows})
                continue
            answers: dict[int, ListOffsetsPartitionResponse] = {}
            for partition in topic.partitions:
                index = partition.partition_index
                repeated = asked[topic.name, index] > 1
                answers[index] = self._answer(topic.name, partition, asker, isolation, context.version, repeated)
            topics.append({"name": topic.name, "partitions": list(answers.values())})
        return {"topics": topics}

    def _answer(
        self, topic: str, question: ListOffsetsPartition, asker: int, isolation: int, version: int, repeated: bool
    ) -> ListOffsetsPartitionResponse:
        index, timestamp = question.partition_index, question.timestamp
        # An error of one partition does not affect the others.
        try:
            if repeated:
                raise Refused(ErrorCode.invalid_request, f"{topic}-{index} is asked for twice")
            if timestamp < 0 and version < _KNOWN_FROM.get(timestamp, version + 1):
                raise Refused(
                    ErrorCode.unsupported_version, f"timestamp {timestamp} needs a later version than {version}"
                )
            partition = self.partitions.held(topic, index)
            epoch = question.current_leader_epoch
            found = (
                partition.offset_here(timestamp, epoch)
                if asker == _DEBUGGER
                else partition.offset_for(timestamp, None if asker != _CONSUMER else isolation, epoch)
            )
        except Fault as fault:
            return _failed(index, int(fault.code))
        offset, timestamp_ms, leader_epoch = found
        return {
            "partition_index": index,
            "error_code": 0,
            "timestamp": timestamp_ms,
            "offset": offset,
            "leader_epoch": leader_epoch,
        }


def _failed(index: int, error_code: int) -> ListOffsetsPartitionResponse:
    return {"partition_index": index, "error_code": error_code}
