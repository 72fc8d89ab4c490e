"""AddOffsetsToTxn (key 25, versions 0–4): the offsets of a group join a transaction.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE (KIP-890)
What joins is the partition of `__consumer_offsets` that holds the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.handlers.context import RequestContext
from headrace.handlers.fencing import as_old_clients_know_it
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition, coordinator_partition

_FENCED_FROM_VERSION = 2


@dataclass(frozen=True)
class AddOffsetsToTxn:
    transactions: TransactionCoordinator
    view: ClusterView

    api_key: ClassVar[int] = 25
    versions: ClassVar[range] = range(5)

    async def __call__(self, request: Any, context: RequestContext) -> dict[str, Any]:
        offsets = self.view.current.topics.get(GROUP_METADATA_TOPIC)
        if offsets is None:
            # A group that never committed has no coordinator yet; the client looks for it and comes back.
            return {"error_code": int(ErrorCode.coordinator_not_available)}
        index = coordinator_partition(request.group_id, len(offsets.partitions))
        error = await self.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [TopicPartition(GROUP_METADATA_TOPIC, index)],
        )
        return {"error_code": as_old_clients_know_it(error, context.version, _FENCED_FROM_VERSION)}
