"""AlterReplicaLogDirs (key 34, versions 1–2): moves a replica between directories of one broker. Every partition is
refused.

Not implemented: with one log directory there is no other to move to, and with several a reassignment to another broker
and back has the same result. Answers per partition: LOG_DIR_NOT_FOUND for a path that is not in `log.dirs`,
UNKNOWN_TOPIC_OR_PARTITION for a partition that this broker does not have, no error for a replica that is in the
requested directory already, else UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headrace.config import BrokerConfig
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )


# The log directory of a replica, or None if it is not on this broker.
DirectoryOf = Callable[[str, int], Path | None]


@dataclass(frozen=True)
class AlterReplicaLogDirs(Handler):
    config: Callable[[], BrokerConfig]
    directory_of: DirectoryOf

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def serve(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
        topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for directory in request.dirs:
            for topic in directory.topics:
                rows = topics.setdefault(str(topic.name), [])
                for index in topic.partitions:
                    code = self._answer(directory.path, str(topic.name), int(index))
                    rows.append({"partition_index": int(index), "error_code": int(code)})
        results: list[AlterReplicaLogDirTopicResult] = [
            {"topic_name": name, "partitions": rows} for name, rows in topics.items()
        ]
        return {"throttle_time": 0, "results": results}

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

    def _answer(self, path: str, topic: str, index: int) -> ErrorCode:
        asked = Path(path).absolute()
        if asked not in {Path(known).absolute() for known in self.config().log_dirs}:
            return ErrorCode.log_dir_not_found
        lies_in = self.directory_of(topic, index)
        if lies_in is None:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.none if asked == lies_in.absolute() else ErrorCode.unsupported_version
