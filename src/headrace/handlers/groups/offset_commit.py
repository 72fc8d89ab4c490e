"""OffsetCommit (key 8, versions 2–10): commits offsets of a group.

v2 retention time (until v4) · v6 leader epoch · v7 static members · v8 flexible
v9 members of consumer groups (KIP-848) · v10 topic ids instead of names
A consumer that assigns its partitions itself commits with generation -1 and no member id. An unknown topic
fails only its own partitions. With replication factor 1 most commits are answered inline.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from typing import ClassVar, Final

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.net.replies import Pending, Reply
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader
from headrace.wire.offset_commit import (
    TOPIC_IDS_FROM,
    OffsetCommitRequest,
    PartitionCommit,
    Topic,
    encode_offset_commit_response,
    read_offset_commit_request,
)

_UNKNOWN_PARTITION: Final = int(ErrorCode.unknown_topic_or_partition)
_DENIED_GROUP: Final = int(ErrorCode.group_authorization_failed)
_DENIED_TOPIC: Final = int(ErrorCode.topic_authorization_failed)
_TOO_LARGE: Final = int(ErrorCode.offset_metadata_too_large)
_KNOWS_MEMBER_EPOCHS_FROM: Final = 9

# Per topic (partition, error code); committed partitions are added after the coordinator's answer.
Answers = list[tuple[Topic, list[tuple[int, int]]]]
Taken = list[tuple[TopicCommit, list[tuple[int, int]]]]


@dataclass(frozen=True)
class OffsetCommit(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    versions: ClassVar[range] = range(2, 11)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.READ)

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> OffsetCommitRequest:
        return read_offset_commit_request(frame, body_at, header.api_version)

    def serve(self, request: OffsetCommitRequest, context: RequestContext) -> Reply:
        header, access = context.header, context.access
        version = header.api_version
        answers: Answers = []
        if not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
            answers = [(topic, [(c.partition, _DENIED_GROUP) for c in commits]) for topic, commits in request.topics]
            return encode_offset_commit_response(version, header.correlation_id, answers)
        taken: Taken = []
        for topic, commits in request.topics:
            outcomes: list[tuple[int, int]] = []
            answers.append((topic, outcomes))
            found = self._found(topic, commits, version, outcomes, access)
            if found is not None:
                taken.append((found, outcomes))
        if not taken:
            return encode_offset_commit_response(version, header.correlation_id, answers)
        try:
            reply = self.groups.commit_offsets(
                CommitRequest(
                    request.group_id,
                    request.member_id,
                    request.instance_id,
                    request.generation,
                    [commit for commit, _ in taken],
                    request.retention_ms,
                    version,
                )
            )
        except Fault as fault:
            _answer(taken, fault.code, frozenset(), version)
            return encode_offset_commit_response(version, header.correlation_id, answers)
        if isinstance(reply, set):
            _answer(taken, ErrorCode.none, reply, version)
            return encode_offset_commit_response(version, header.correlation_id, answers)
        return Pending.of(self._later(answers, taken, reply, version, header.correlation_id))

    async def _later(
        self,
        answers: Answers,
        taken: Taken,
        reply: asyncio.Future[set[tuple[str, int]]],
        version: int,
        correlation_id: int,
    ) -> bytearray:
        try:
            _answer(taken, ErrorCode.none, await reply, version)
        except Fault as fault:
            _answer(taken, fault.code, frozenset(), version)
        return encode_offset_commit_response(version, correlation_id, answers)

    def _found(
        self,
        topic: Topic,
        commits: list[PartitionCommit],
        version: int,
        outcomes: list[tuple[int, int]],
        access: Access,
    ) -> TopicCommit | None:
        """The valid commits of a topic; the answers for the others go to `outcomes`."""
        image = self.view.current
        if version >= TOPIC_IDS_FROM:
            assert isinstance(topic, bytes)
            name = image.topic_names.get(uuid.UUID(bytes=topic), "")
        else:
            assert isinstance(topic, str)
            name = topic
        if name and not access.may(Operation.READ, ResourceType.TOPIC, name):
            outcomes += [(commit.partition, _DENIED_TOPIC) for commit in commits]
            return None
        info = image.topics.get(name)
        if info is None:
            unknown = int(ErrorCode.unknown_topic_id) if version >= TOPIC_IDS_FROM else _UNKNOWN_PARTITION
            outcomes += [(commit.partition, unknown) for commit in commits]
            return None
        exist = len(info.partitions)
        for commit in commits:
            if not 0 <= commit.partition < exist:
                outcomes += [(c.partition, _UNKNOWN_PARTITION) for c in commits if not 0 <= c.partition < exist]
                commits = [c for c in commits if 0 <= c.partition < exist]
                break
        return TopicCommit(name, info.id, commits) if commits else None


def _answer(taken: Taken, error: ErrorCode, too_long: Collection[tuple[str, int]], version: int) -> None:
    # Members of the new protocol get STALE_MEMBER_EPOCH; older versions get their own error codes.
    if version < _KNOWS_MEMBER_EPOCHS_FROM and error is ErrorCode.stale_member_epoch:
        error = ErrorCode.illegal_generation
    code = int(error)
    for commit, outcomes in taken:
        if too_long:
            outcomes += [
                (c.partition, _TOO_LARGE if (commit.topic, c.partition) in too_long else code)
                for c in commit.partitions
            ]
        else:
            outcomes += [(c.partition, code) for c in commit.partitions]
