"""DescribeProducers (key 61, version 0): active producers of a partition and their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import topic_name_problem
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
        PartitionResponse,
        ProducerState,
    )


@dataclass(frozen=True)
class DescribeProducers(Handler):
    partitions: Partitions

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(topic=Operation.READ)

    def serve(self, request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [self._answer(topic.name, one, context.access) for one in topic.partition_indexes],
                }
                for topic in request.topics
            ]
        }

    def _answer(self, topic: str, index: int, access: Access) -> PartitionResponse:
        try:
            problem = topic_name_problem(topic)
            if problem is not None:
                raise Refused(ErrorCode.invalid_topic_exception, problem)
            access.require(Operation.READ, ResourceType.TOPIC, topic)
            log = self.partitions.held(topic, index).log  # any replica answers: the user names the broker
        except Fault as fault:
            return {
                "partition_index": index,
                "error_code": int(fault.code),
                "error_message": fault.message,
                "active_producers": [],
            }
        producers: list[ProducerState] = [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": -1 if producer.txn_first_offset is None else producer.txn_first_offset,
            }
            for producer in log.producers.entries.values()
        ]
        return {"partition_index": index, "error_code": 0, "error_message": None, "active_producers": producers}
