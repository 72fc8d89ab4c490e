"""DeleteRecords (key 21, versions 0–2): delete the records below an offset.

v2 flexible. Offset -1 means the high watermark. The answer waits until every live replica has deleted them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import INTERNAL_TOPICS
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsPartitionResult,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
    )


@dataclass(frozen=True)
class DeleteRecords(Handler):
    partitions: Partitions

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(topic=Operation.DELETE)

    async def serve(self, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
        timeout_ms = millis(request.timeout)
        asked = [(topic.name, one) for topic in request.topics for one in topic.partitions]
        answers = iter(
            await asyncio.gather(*(self._delete(topic, one, timeout_ms, context.access) for topic, one in asked))
        )
        return {
            "topics": [
                {"name": topic.name, "partitions": [next(answers) for _ in topic.partitions]}
                for topic in request.topics
            ]
        }

    async def _delete(
        self, topic: str, asked: DeleteRecordsPartition, timeout_ms: int, access: Access
    ) -> DeleteRecordsPartitionResult:
        index = asked.partition_index
        try:
            access.require(Operation.DELETE, ResourceType.TOPIC, topic)
            if topic in INTERNAL_TOPICS:
                raise Refused(
                    ErrorCode.invalid_topic_exception, f"{topic} is internal: its records are not for deletion"
                )
            partition = self.partitions.led(topic, index)
            if "delete" not in partition.log.config.cleanup_policy:
                raise Refused(ErrorCode.policy_violation, f"{topic} is compacted: its records are not for deletion")
            target = partition.delete_records_before(asked.offset)
            code = await partition.wait_deleted(target, timeout_ms)
            if code is not ErrorCode.none:
                raise Refused(code, f"{topic}-{index}: not every replica has deleted the records")
        except Fault as fault:
            return {"partition_index": index, "low_watermark": -1, "error_code": int(fault.code)}
        return {"partition_index": index, "low_watermark": partition.low_watermark, "error_code": 0}
