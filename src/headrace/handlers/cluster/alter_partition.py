"""AlterPartition (key 56, versions 2–3): a leader reports a new in-sync set to the controller (KIP-497, 704, 841, 903).

v2  topic ids · v3 members carry their broker epochs. Brokers only. Never forwarded: the leader sends it to
the controller itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.controller.core.isr_changes import UNKNOWN_EPOCH, IsrAnswer, IsrReport
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
        RequestPartitionData,
        ResponsePartitionData,
        ResponseTopicData,
    )


@dataclass(frozen=True)
class AlterPartition(Handler):
    controller: Controller
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION
    versions: ClassVar[range] = range(2, 4)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    is_advertised: ClassVar[bool] = False

    async def serve(self, request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
        image = self.view.current
        reports: list[IsrReport] = []
        asked: list[tuple[UUID | None, int, str | None]] = []
        for topic in request.topics:
            name = None if topic.topic_id is None else image.topic_names.get(topic.topic_id)
            for data in topic.partitions:
                asked.append((topic.topic_id, int(data.partition_index), name))
                if name is not None and topic.topic_id is not None:
                    reports.append(_report(name, topic.topic_id, data))
        answers = iter(
            await self.controller.alter_partitions(int(request.broker_id), int(request.broker_epoch), reports)
        )
        topics: dict[UUID | None, list[ResponsePartitionData]] = {}
        for topic_id, index, name in asked:
            answer = IsrAnswer(ErrorCode.unknown_topic_id) if name is None else next(answers)
            topics.setdefault(topic_id, []).append(_row(index, answer))
        rows: list[ResponseTopicData] = [
            {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()
        ]
        return {"throttle_time": 0, "error_code": 0, "topics": rows}


def _report(name: str, topic_id: UUID, data: RequestPartitionData) -> IsrReport:
    if data.new_isr_with_epochs:
        members = [(int(member.broker_id), int(member.broker_epoch)) for member in data.new_isr_with_epochs]
    else:
        members = [(int(broker_id), UNKNOWN_EPOCH) for broker_id in data.new_isr]
    epochs = int(data.leader_epoch), int(data.partition_epoch)
    return IsrReport(name, int(data.partition_index), *epochs, members, topic_id)


def _row(index: int, answer: IsrAnswer) -> ResponsePartitionData:
    info = answer.info
    return {
        "partition_index": index,
        "error_code": int(answer.error),
        "leader_id": -1 if info is None else info.leader,
        "leader_epoch": -1 if info is None else info.leader_epoch,
        "isr": [] if info is None else list(info.isr),
        "leader_recovery_state": 0,
        "partition_epoch": -1 if info is None else info.partition_epoch,
    }
