"""AddOffsetsToTxn (key 25, versions 0–4): adds the offsets of a group to a transaction.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE (KIP-890)
It adds the group's partition of `__consumer_offsets`, which may not exist yet: clients send this request before
FindCoordinator, which creates that topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.transactions.fencing import as_old_clients_know_it
from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


_FENCED_FROM_VERSION = 2


@dataclass(frozen=True)
class AddOffsetsToTxn(Handler):
    transactions: TransactionCoordinator
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar[range] = range(5)
    needs: ClassVar[Needs] = Needs(transactional_id=Operation.WRITE, group=Operation.READ)

    async def serve(self, request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
        context.access.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.access.require(Operation.READ, ResourceType.GROUP, request.group_id)
        index = self.groups.runtime.partition_of(request.group_id)
        error = await self.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [TopicPartition(GROUP_METADATA_TOPIC, index)],
        )
        return {"error_code": as_old_clients_know_it(error, context.version, _FENCED_FROM_VERSION)}
