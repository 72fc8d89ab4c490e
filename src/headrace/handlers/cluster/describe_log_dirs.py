"""DescribeLogDirs (key 35, versions 1–5): the broker's directories, their sizes, and which partitions are in them.

v2 flexible · v3 top-level error · v4 total and usable bytes (KIP-827) · v5 cordoned directories
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.storage.dirs.log_dirs import DirectoryReport, LogDirs
from headrace.storage.log import Log
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_log_dirs import (
        DescribeLogDirsPartition,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        DescribeLogDirsResult,
    )


@dataclass(frozen=True)
class DescribeLogDirs(Handler):
    log_dirs: LogDirs

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    versions: ClassVar[range] = range(1, 6)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(self, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
        wanted = None
        if request.topics is not None:
            wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
        return {"error_code": 0, "results": [self._directory(report, wanted) for report in self.log_dirs.describe()]}

    def refuse(
        self, request: DescribeLogDirsRequest, context: RequestContext, error_code: int, message: str
    ) -> DescribeLogDirsResponse:
        """Before v3 the answer has no error field: it is empty."""
        return {"error_code": error_code, "results": []}

    def _directory(self, report: DirectoryReport, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
        if report.offline_reason is not None:
            return {
                "error_code": int(ErrorCode.kafka_storage_error),
                "log_dir": str(report.path.absolute()),
                "topics": [],
                "total_bytes": -1,
                "usable_bytes": -1,
            }
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for log in report.logs:
            if wanted is None or (log.topic, log.partition) in wanted:
                topics.setdefault(log.topic, []).append(self._partition(log))
        return {
            "error_code": 0,
            "log_dir": str(report.path.absolute()),
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
            "total_bytes": report.total_bytes,
            "usable_bytes": report.usable_bytes,
            "is_cordoned": report.is_cordoned,
        }

    def _partition(self, log: Log) -> DescribeLogDirsPartition:
        # How far the log is behind the high watermark, 0 for a leader; a future log is behind the log that it copies.
        lag = max(log.high_watermark - log.log_end_offset, 0)
        current = self.log_dirs.log(log.topic, log.partition)
        is_future = current is not log
        if is_future:
            lag = -1 if current is None else current.log_end_offset - log.log_end_offset
        return {
            "partition_index": log.partition,
            "partition_size": log.size_bytes,
            "offset_lag": lag,
            "is_future_key": is_future,
        }
