"""AlterReplicaLogDirs (key 34, versions 1–2): moves a replica to another log directory of this broker.

The answer comes when the move has begun; DescribeLogDirs shows its progress. A replica that is in the directory already
has no error, and a move of it to elsewhere is cancelled. Errors per partition: LOG_DIR_NOT_FOUND for a path that is not
one of the absolute paths of `log.dirs`, KAFKA_STORAGE_ERROR for a directory that is offline, INVALID_REPLICA_ASSIGNMENT
for a cordoned one (KIP-1066), INVALID_TOPIC_EXCEPTION for a name that is too long for the copy's directory,
UNKNOWN_TOPIC_OR_PARTITION, and REPLICA_NOT_AVAILABLE for a partition of other brokers; this broker then remembers the
directory for the replica. If a partition is named twice, the last directory counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )


# Begins to move the replica of a topic's partition to a path. Raises Fault.
MoveReplica = Callable[[str, int, str], None]


@dataclass(frozen=True)
class AlterReplicaLogDirs(Handler):
    begin_move: MoveReplica

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def serve(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
        paths = {
            (str(topic.name), int(index)): str(directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
        topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for (name, index), path in paths.items():
            code = self._begin(name, index, path)
            topics.setdefault(name, []).append({"partition_index": index, "error_code": int(code)})
        results: list[AlterReplicaLogDirTopicResult] = [
            {"topic_name": name, "partitions": rows} for name, rows in topics.items()
        ]
        return {"throttle_time": 0, "results": results}

    def _begin(self, topic: str, index: int, path: str) -> ErrorCode:
        try:
            self.begin_move(topic, index, path)
        except Fault as fault:
            return fault.code
        return ErrorCode.none

    def refuse(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext, error_code: int, message: str
    ) -> AlterReplicaLogDirsResponse:
        """The API has no top-level error: every partition carries it."""
        results: list[AlterReplicaLogDirTopicResult] = [
            {
                "topic_name": topic.name,
                "partitions": [{"partition_index": int(index), "error_code": error_code} for index in topic.partitions],
            }
            for directory in request.dirs
            for topic in directory.topics
        ]
        return {"throttle_time": 0, "results": results}
