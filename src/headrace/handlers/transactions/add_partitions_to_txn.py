"""AddPartitionsToTxn (key 24, versions 0–5): adds partitions to a transaction, or verifies them for a leader.

v0–3 from producers, one transaction each · v2 PRODUCER_FENCED · v3 flexible
v4 from brokers, many transactions, verify-only (KIP-890 part 1) · v5 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.transactions.fencing import as_old_clients_know_it
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import INTERNAL_TOPICS, TopicPartition
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnResult,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTopicResult,
    )


_BATCHED_FROM_VERSION = 4
_FENCED_FROM_VERSION = 2
_IMPLICIT_VERSION = 2

Outcomes = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True)
class AddPartitionsToTxn(Handler):
    transactions: TransactionCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    versions: ClassVar[range] = range(6)
    needs: ClassVar[Needs] = Needs(
        transactional_id=Operation.WRITE, topic=Operation.WRITE, cluster=Operation.CLUSTER_ACTION
    )

    async def serve(self, request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
        access = context.access
        if context.version < _BATCHED_FROM_VERSION:
            access.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
            outcomes = await self._one(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                _partitions_of(request.v3_and_below_topics),
                denied={
                    str(topic.name)
                    for topic in request.v3_and_below_topics
                    if topic.name in INTERNAL_TOPICS or not access.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
                },
                verify_only=False,
                client_version=0,
            )
            return {"results_by_topic_v3_and_below": _by_topic(outcomes, context.version)}
        access.require_cluster(Operation.CLUSTER_ACTION)
        results: list[AddPartitionsToTxnResult] = []
        for wanted in request.transactions:
            outcomes = await self._one(
                wanted.transactional_id,
                wanted.producer_id,
                wanted.producer_epoch,
                _partitions_of(wanted.topics),
                denied=set(),  # the sending broker has authorized its client
                verify_only=wanted.verify_only,
                client_version=_IMPLICIT_VERSION,
            )
            results.append(
                {
                    "transactional_id": wanted.transactional_id,
                    "topic_results": _by_topic(outcomes, context.version),
                }
            )
        return {"error_code": 0, "results_by_transaction": results}

    def refuse(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, error_code: int, message: str
    ) -> AddPartitionsToTxnResponse:
        if context.version >= _BATCHED_FROM_VERSION:
            return {"error_code": error_code, "results_by_transaction": []}
        partitions = _partitions_of(request.v3_and_below_topics)
        outcomes = dict.fromkeys(partitions, ErrorCode(error_code))
        return {"results_by_topic_v3_and_below": _by_topic(outcomes, context.version)}

    async def _one(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        denied: set[str],
        verify_only: bool,
        client_version: int,
    ) -> Outcomes:
        image = self.view.current
        refused = {
            p: ErrorCode.topic_authorization_failed if p.topic in denied else ErrorCode.unknown_topic_or_partition
            for p in partitions
            if p.topic in denied or image.partition(p.topic, p.partition) is None
        }
        if refused:
            # One bad partition fails the whole transaction's request; the others get OPERATION_NOT_ATTEMPTED.
            return {p: refused.get(p, ErrorCode.operation_not_attempted) for p in partitions}
        if verify_only:
            return await self.transactions.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
        error = await self.transactions.add_partitions(
            transactional_id, producer_id, producer_epoch, partitions, client_version=client_version
        )
        return dict.fromkeys(partitions, error)


def _partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(str(topic.name), int(index)) for topic in topics for index in topic.partitions]


def _by_topic(outcomes: Outcomes, version: int) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for where, error in outcomes.items():
        topics.setdefault(where.topic, []).append(
            {
                "partition_index": where.partition,
                "partition_error_code": as_old_clients_know_it(error, version, _FENCED_FROM_VERSION),
            }
        )
    return [{"name": name, "results_by_partition": results} for name, results in topics.items()]
