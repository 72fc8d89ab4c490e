"""TxnOffsetCommit (key 28, versions 0–5): offsets that take effect when their transaction commits.

v2 leader epoch · v3 flexible, member, generation and instance of the consumer (KIP-447) · v4 TRANSACTION_ABORTABLE
v5 the commit adds the group's partition to the transaction (KIP-890 part 2)
Before v2 the error of a loading coordinator is COORDINATOR_NOT_AVAILABLE: old clients fail on the other (KAFKA-7296).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.coordinators.runtime.runtime import settled
from headrace.coordinators.txn.verification import TransactionVerification
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.offset_commit import PartitionCommit

if TYPE_CHECKING:
    from headrace.wire.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
        TxnOffsetCommitResponse,
    )


_KNOWS_LOADING_FROM: Final = 2
_KNOWS_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
# The group coordinator cannot reach the transaction coordinator: the client must retry at the group coordinator.
_NOT_VERIFIED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_enough_replicas,
    }
)

Outcomes = dict[tuple[str, int], ErrorCode]


@dataclass(frozen=True)
class TxnOffsetCommit(Handler):
    groups: GroupCoordinator
    verification: TransactionVerification
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(transactional_id=Operation.WRITE, group=Operation.READ, topic=Operation.READ)

    async def serve(self, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
        image, access = self.view.current, context.access
        access.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        access.require(Operation.READ, ResourceType.GROUP, request.group_id)
        outcomes: Outcomes = {}
        for topic in request.topics:
            may_read = access.may(Operation.READ, ResourceType.TOPIC, topic.name)
            for p in topic.partitions:
                if not may_read:
                    error = ErrorCode.topic_authorization_failed
                elif image.partition(topic.name, p.partition_index) is None:
                    error = ErrorCode.unknown_topic_or_partition
                else:
                    error = ErrorCode.none
                outcomes[str(topic.name), int(p.partition_index)] = error
        known = {where for where, error in outcomes.items() if error is ErrorCode.none}
        if known:
            outcomes |= await self._commit(request, context.version, known)
        return _answer(request, outcomes, context.version)

    def refuse(
        self, request: TxnOffsetCommitRequest, context: RequestContext, error_code: int, message: str
    ) -> TxnOffsetCommitResponse:
        code = ErrorCode(error_code)
        outcomes = {(str(t.name), int(p.partition_index)): code for t in request.topics for p in t.partitions}
        return _answer(request, outcomes, context.version)

    async def _commit(self, request: TxnOffsetCommitRequest, version: int, known: set[tuple[str, int]]) -> Outcomes:
        if not request.group_id:
            return dict.fromkeys(known, ErrorCode.invalid_group_id)
        error = await self._verified(request, version)
        if error is not ErrorCode.none:
            return dict.fromkeys(known, error)
        commit = CommitRequest(
            str(request.group_id),
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            [
                _topic_commit(
                    topic, self.view, [p for p in topic.partitions if (topic.name, p.partition_index) in known]
                )
                for topic in request.topics
            ],
        )
        try:
            # Nothing is awaited between the verification and this append.
            reply = self.groups.commit_transactional_offsets(
                commit, int(request.producer_id), int(request.producer_epoch)
            )
            too_long: set[tuple[str, int]] = await settled(reply)
        except Fault as fault:
            return dict.fromkeys(known, fault.code)
        return {where: ErrorCode.offset_metadata_too_large if where in too_long else ErrorCode.none for where in known}

    async def _verified(self, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
        where = TopicPartition(GROUP_METADATA_TOPIC, self.groups.runtime.partition_of(request.group_id))
        producer_id, epoch = int(request.producer_id), int(request.producer_epoch)
        if self.verification.is_open(where, producer_id, epoch):
            return ErrorCode.none
        if self.verification.is_replaced(where, producer_id, epoch):
            return ErrorCode.invalid_producer_epoch
        outcomes = await self.verification.verify(
            request.transactional_id, producer_id, epoch, [where], add=version >= _ADDS_FROM
        )
        error = outcomes[where]
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and version < _KNOWS_ABORTABLE_FROM:
            return ErrorCode.invalid_txn_state
        if error is ErrorCode.not_leader_or_follower:
            return ErrorCode.not_coordinator
        if error in _NOT_VERIFIED or (error is ErrorCode.concurrent_transactions and version < _ADDS_FROM):
            return ErrorCode.coordinator_load_in_progress
        return error


def _topic_commit(
    topic: TxnOffsetCommitRequestTopic, view: ClusterView, partitions: list[TxnOffsetCommitRequestPartition]
) -> TopicCommit:
    info = view.current.topics.get(topic.name)
    return TopicCommit(
        str(topic.name),
        None if info is None else info.id,
        [
            PartitionCommit(
                int(p.partition_index),
                int(p.committed_offset),
                p.committed_leader_epoch,
                p.committed_metadata or "",
            )
            for p in partitions
        ],
    )


def _answer(request: TxnOffsetCommitRequest, outcomes: Outcomes, version: int) -> TxnOffsetCommitResponse:
    def code(error: ErrorCode) -> int:
        if error is ErrorCode.coordinator_load_in_progress and version < _KNOWS_LOADING_FROM:
            return int(ErrorCode.coordinator_not_available)
        return int(error)

    return {
        "topics": [
            {
                "name": str(topic.name),
                "partitions": [
                    {
                        "partition_index": int(p.partition_index),
                        "error_code": code(outcomes[str(topic.name), int(p.partition_index)]),
                    }
                    for p in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
