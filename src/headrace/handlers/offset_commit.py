"""OffsetCommit (key 8, versions 2–10): how far a group has read.

v2 retention time (until v4) · v6 leader epoch · v7 static members · v8 flexible
v9 members of consumer groups (KIP-848) · v10 topic ids instead of names
A consumer that assigns its partitions itself commits with generation -1 and no member id. An unknown topic costs only
its own partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offset_requests import CommitRequest
from headrace.coordinators.group.core.offsets import PartitionCommit, TopicCommit
from headrace.coordinators.runtime import settled
from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.codec import millis

_TOPIC_IDS_FROM: Final = 10
_LONGEST_RETENTION_VERSION: Final = 4


@dataclass(frozen=True)
class OffsetCommit:
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[int] = 8
    versions: ClassVar[range] = range(2, 11)

    def __call__(self, request: Any, context: RequestContext) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        version = context.version
        answers: list[dict[str, Any]] = []
        taken: list[tuple[TopicCommit, dict[str, Any]]] = []
        for topic in request.topics:
            name, topic_id, unknown = self._topic(topic, version)
            answer: dict[str, Any] = {"name": name, "topic_id": topic_id}
            answers.append(answer)
            exist = 0 if unknown is not None else len(self.view.current.topics[name].partitions)
            answer["partitions"] = [
                {
                    "partition_index": p.partition_index,
                    "error_code": unknown or ErrorCode.unknown_topic_or_partition,
                }
                for p in topic.partitions
                if not 0 <= p.partition_index < exist
            ]
            commits = [
                PartitionCommit(
                    p.partition_index,
                    p.committed_offset,
                    getattr(p, "committed_leader_epoch", -1),
                    p.committed_metadata or "",
                )
                for p in topic.partitions
                if 0 <= p.partition_index < exist
            ]
            if commits:
                taken.append((TopicCommit(name, topic_id, commits), answer))
        if not taken:
            return {"topics": answers}
        try:
            reply = self.groups.commit_offsets(
                CommitRequest(
                    request.group_id,
                    request.member_id,
                    getattr(request, "group_instance_id", None),
                    request.generation_id_or_member_epoch,
                    [commit for commit, _ in taken],
                    millis(request.retention_time) if version <= _LONGEST_RETENTION_VERSION else -1,
                    version,
                )
            )
        except Fault as fault:
            return _answered(answers, taken, fault.code, frozenset(), version)
        if isinstance(reply, set):
            return _answered(answers, taken, ErrorCode.none, reply, version)
        return self._later(answers, taken, reply, version)

    async def _later(
        self, answers: list[dict[str, Any]], taken: list[tuple[TopicCommit, dict[str, Any]]], reply: Any, version: int
    ) -> dict[str, Any]:
        try:
            return _answered(answers, taken, ErrorCode.none, await settled(reply), version)
        except Fault as fault:
            return _answered(answers, taken, fault.code, frozenset(), version)

    def _topic(self, topic: Any, version: int) -> tuple[str, Any, ErrorCode | None]:
        """(name, id, why it is refused)"""
        image = self.view.current
        if version >= _TOPIC_IDS_FROM:
            name = image.topic_names.get(topic.topic_id) if topic.topic_id is not None else None
            return name or "", topic.topic_id, None if name is not None else ErrorCode.unknown_topic_id
        info = image.topics.get(topic.name)
        if info is None:
            return topic.name, None, ErrorCode.unknown_topic_or_partition
        return topic.name, info.id, None


def _answered(
    answers: list[dict[str, Any]],
    taken: list[tuple[TopicCommit, dict[str, Any]]],
    error: ErrorCode,
    too_long: Any,
    version: int,
) -> dict[str, Any]:
    # Members of the new protocol learn of a fence by the epoch; versions before it know only their own words for it.
    if version < 9 and error is ErrorCode.stale_member_epoch:
        error = ErrorCode.illegal_generation
    for commit, answer in taken:
        answer["partitions"] += [
            {
                "partition_index": p.partition,
                "error_code": ErrorCode.offset_metadata_too_large if (commit.topic, p.partition) in too_long else error,
            }
            for p in commit.partitions
        ]
    return {"topics": answers}
