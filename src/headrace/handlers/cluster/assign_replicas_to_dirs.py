"""AssignReplicasToDirs (key 73, version 0): here only reports of lost replicas and full disks (KIP-858).

Brokers only, at the controller. Kafka's controller keeps the directory of every replica. Ours needs only the replicas
that lack records or cannot be written, which a broker reports with directories of special ids (`controller/gateway`).
A report with the directory LOST names everything that the broker lacks. Other directories are accepted and ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from headrace.cluster.core.losses import ReplicaKey, ReplicaLosses
from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.controller.gateway import (
    FULL_DIRECTORY,
    INCOMPLETE_DIRECTORY,
    LOST_DIRECTORY,
    OFFLINE_DIRECTORY,
)
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
        reported: dict[UUID | None, set[ReplicaKey]] = {}
        full: list[TopicPartition] = []
        directories: list[ResponseDirectoryData] = []
        for directory in request.directories:
            topics: list[ResponseTopicData] = []
            replicas = reported.setdefault(directory.id_, set())
            for topic in directory.topics:
                name = None if topic.topic_id is None else names.get(topic.topic_id)
                code = ErrorCode.unknown_topic_id if name is None else ErrorCode.none
                indexes = [int(partition.partition_index) for partition in topic.partitions]
                if name is not None and topic.topic_id is not None:
                    replicas.update((topic.topic_id, index) for index in indexes)
                    if directory.id_ == FULL_DIRECTORY:
                        full += [TopicPartition(name, index) for index in indexes]
                rows: list[ResponsePartitionData] = [
                    {"partition_index": index, "error_code": int(code)} for index in indexes
                ]
                topics.append({"topic_id": topic.topic_id, "partitions": rows})
            directories.append({"id_": directory.id_, "topics": topics})
        losses = None
        if LOST_DIRECTORY in reported:
            incomplete = reported.get(INCOMPLETE_DIRECTORY, set())
            is_offline = OFFLINE_DIRECTORY in reported
            losses = ReplicaLosses(frozenset(reported[LOST_DIRECTORY]), frozenset(incomplete), is_offline)
        await self.controller.report_replicas(int(request.broker_id), int(request.broker_epoch), losses, full)
        return {"throttle_time": 0, "error_code": 0, "directories": directories}
