"""Asks the coordinator, before a batch opens a transaction in a partition, whether the partition belongs to it.

The produce handler verifies every transactional batch whose producer has no open transaction in the partition; later
batches are appended at once. For a version 2 client (Produce ≥ 12, TxnOffsetCommit ≥ 5) the partition leader adds the
partition (`add`). For an older one the leader only verifies that the client added it (KIP-890).

Guards detect an end of the transaction or a change of leader between the question and the append. The caller appends
right after the await, before any other task can run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.peers import Peers
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.verification_guards import VerificationGuards
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TRANSACTION_STATE_TOPIC, TopicPartition, coordinator_partition
from headrace.replication.partition import Partition
from headrace.wire.apis import ApiKey

_BATCHED_VERSION: Final = 5
_IMPLICIT_VERSION: Final = 2

Outcomes = dict[TopicPartition, ErrorCode]


class KnownPartitions(Protocol):
    def get(self, topic: str, index: int) -> Partition | None: ...


class TransactionVerification:
    """Owned by the event loop."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        guards: VerificationGuards,
        partitions: KnownPartitions,
        view: ClusterView,
        broker_id: int,
        peers: Peers,
        *,
        verifies: bool = True,
    ) -> None:
        self._coordinator = coordinator
        self._guards = guards
        self._partitions = partitions
        self._view = view
        self._broker_id = broker_id
        self._peers = peers
        self._verifies = verifies

    def settings_changed(self, *, verifies: bool) -> None:
        """`verifies`: transaction.partition.verification.enable."""
        self._verifies = verifies

    def is_required(self, *, add: bool) -> bool:
        """Whether a batch may open a transaction only after `verify`. Adding the partition is always required."""
        return add or self._verifies

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Outcomes:
        """The coordinator's answer for each partition. After NONE the caller may append, before its next await."""
        if not self.is_required(add=add):
            return dict.fromkeys(partitions, ErrorCode.none)
        epochs = {where: self._leader_epoch(where) for where in partitions}
        ended_by = producer_epoch + 1 if add else producer_epoch
        guards = {where: self._guards.take(where, producer_id, ended_by) for where in partitions}
        try:
            outcomes = await self._ask(transactional_id, producer_id, producer_epoch, partitions, add)
        finally:
            valid = {where: self._guards.give_back(where, producer_id, guard) for where, guard in guards.items()}
        for where in partitions:
            if outcomes.setdefault(where, ErrorCode.network_exception) is not ErrorCode.none:
                continue
            if self._leader_epoch(where) != epochs[where]:
                outcomes[where] = ErrorCode.not_leader_or_follower
            elif not valid[where]:
                outcomes[where] = ErrorCode.invalid_txn_state
        return outcomes

    def is_open(self, where: TopicPartition, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer has a transaction open in the partition: then its batches need no verification."""
        partition = self._partitions.get(where.topic, where.partition)
        return partition is not None and bool(partition.log.producers.has_ongoing(producer_id, producer_epoch))

    def is_replaced(self, where: TopicPartition, producer_id: int, producer_epoch: int) -> bool:
        """Whether the partition has seen a newer epoch of this producer: then the coordinator need not be asked."""
        partition = self._partitions.get(where.topic, where.partition)
        return partition is not None and bool(partition.log.producers.is_replaced(producer_id, producer_epoch))

    def _leader_epoch(self, where: TopicPartition) -> int | None:
        partition = self._partitions.get(where.topic, where.partition)
        return None if partition is None else int(partition.leader_epoch)

    async def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Outcomes:
        coordinator = self._coordinator
        broker = self._coordinator_broker(transactional_id)
        if broker is None:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
        if broker != self._broker_id:
            return await self._ask_peer(broker, transactional_id, producer_id, producer_epoch, partitions, add)
        if not add:
            return await coordinator.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
        error = await coordinator.add_partitions(
            transactional_id, producer_id, producer_epoch, partitions, client_version=_IMPLICIT_VERSION
        )
        return dict.fromkeys(partitions, error)

    def _coordinator_broker(self, transactional_id: str) -> int | None:
        topic = self._view.current.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[coordinator_partition(transactional_id, len(topic.partitions))].leader
        return leader if leader >= 0 else None

    async def _ask_peer(
        self,
        broker: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        add: bool,
    ) -> Outcomes:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        transaction = {
            "transactional_id": transactional_id,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "verify_only": not add,
            "topics": [{"name": name, "partitions": indexes} for name, indexes in by_topic.items()],
        }
        try:
            answer = await self._peers.request(
                broker, ApiKey.ADD_PARTITIONS_TO_TXN, {"transactions": [transaction]}, version=_BATCHED_VERSION
            )
        except Fault:
            return dict.fromkeys(partitions, ErrorCode.network_exception)
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            # The client cannot fix missing rights between brokers. For it the batch was not verified.
            unverified = code is ErrorCode.cluster_authorization_failed
            return dict.fromkeys(partitions, ErrorCode.invalid_txn_state if unverified else code)
        return {
            TopicPartition(str(topic.name), int(p.partition_index)): ErrorCode(p.partition_error_code)
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for p in topic.results_by_partition
        }
