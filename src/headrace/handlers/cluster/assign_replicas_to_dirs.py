"""AssignReplicasToDirs (key 73, version 0): here only the report that replicas are on a failed or full disk (KIP-858).

Brokers only, at the controller. Kafka's controller keeps the directory of every replica. Ours needs only the replicas
that are lost or cannot be written, which a broker reports with the directory LOST or FULL. Other directories are
accepted and ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.controller.gateway import FULL_DIRECTORY, LOST_DIRECTORY
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
        ResponseDirectoryData,
        ResponsePartitionData,
        ResponseTopicData,
    )


@dataclass(frozen=True)
class AssignReplicasToDirs(Handler):
    controller: Controller
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.ASSIGN_REPLICAS_TO_DIRS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    is_advertised: ClassVar[bool] = False

    async def serve(
        self, request: AssignReplicasToDirsRequest, context: RequestContext
    ) -> AssignReplicasToDirsResponse:
        names = self.view.current.topic_names
        lost: list[TopicPartition] = []
        full: list[TopicPartition] = []
        directories: list[ResponseDirectoryData] = []
        for directory in request.directories:
            topics: list[ResponseTopicData] = []
            for topic in directory.topics:
                name = None if topic.topic_id is None else names.get(topic.topic_id)
                code = ErrorCode.unknown_topic_id if name is None else ErrorCode.none
                indexes = [int(partition.partition_index) for partition in topic.partitions]
                if name is not None and directory.id_ in (LOST_DIRECTORY, FULL_DIRECTORY):
                    named = lost if directory.id_ == LOST_DIRECTORY else full
                    named += [TopicPartition(name, index) for index in indexes]
                rows: list[ResponsePartitionData] = [
                    {"partition_index": index, "error_code": int(code)} for index in indexes
                ]
                topics.append({"topic_id": topic.topic_id, "partitions": rows})
            directories.append({"id_": directory.id_, "topics": topics})
        await self.controller.replicas_lost(int(request.broker_id), int(request.broker_epoch), lost, full)
        return {"throttle_time": 0, "error_code": 0, "directories": directories}
