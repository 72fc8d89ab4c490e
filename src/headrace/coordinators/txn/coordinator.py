"""The transaction coordinator's interface for the handlers: one call per request, errors as data.

It runs the shards of `__transaction_state` that this broker leads and gives them new producer ids. While the markers of
the previous transaction are being written, it waits a moment instead of answering CONCURRENT_TRANSACTIONS at once.
Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Protocol

from headrace.cluster.core.features import level_of
from headrace.cluster.view import ClusterView
from headrace.coordinators.peers import Peers
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.result import Result
from headrace.coordinators.runtime.runtime import CoordinatorRuntime, LedPartitions, settled
from headrace.coordinators.txn.core.queries import ListFilter
from headrace.coordinators.txn.core.shard import TransactionSettings, TransactionShard
from headrace.coordinators.txn.core.transaction import Answer, Decision, Transaction
from headrace.coordinators.txn.marker_sender import ShardMarkers
from headrace.coordinators.txn.marker_writer import MarkerWriter
from headrace.coordinators.txn.producer_ids import ProducerIds
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition

# How long a request may wait for the end of the previous transaction before it gets CONCURRENT_TRANSACTIONS.
# Long enough for a round of markers in a healthy cluster, far below any client's request timeout.
_LONGEST_WAIT_SECONDS: Final = 0.5

Operation = Callable[[TransactionShard, int, int | None], Result]


class BrokerContext(Protocol):
    """The broker that the coordinator runs on."""

    @property
    def partitions(self) -> LedPartitions: ...
    @property
    def view(self) -> ClusterView: ...
    @property
    def broker_id(self) -> int: ...


class TransactionCoordinator:
    def __init__(
        self,
        broker: BrokerContext,
        producer_ids: ProducerIds,
        writer: MarkerWriter,
        peers: Peers,
        settings: TransactionSettings,
        topic: InternalTopic,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._view = broker.view
        self._broker_id = broker.broker_id
        self._producer_ids = producer_ids
        self._writer = writer
        self._peers = peers
        self._settings = settings
        self._markers: dict[int, ShardMarkers] = {}
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic,
            broker.partitions,
            broker.broker_id,
            self._make_shard,
            clock=clock,
        )

    def _make_shard(self, index: int) -> TransactionShard:
        markers = ShardMarkers(
            self._view,
            self._broker_id,
            self._writer,
            self._peers,
            lambda: self.runtime.leader_epoch(index),
            lambda prepared: self.runtime.hosted(index).submit(lambda shard, now: shard.complete(prepared, now)),
        )
        self._markers[index] = markers
        return TransactionShard(self._settings, markers, self.server_version, self._producer_ids.take_now)

    def server_version(self) -> int:
        """The finalized level of `transaction.version`: which protocol the coordinator's own aborts follow."""
        return level_of(self._view.current, "transaction.version")

    # Requests of producers

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, expected: tuple[int, int] | None
    ) -> Answer:
        if transactional_id is None:
            return Answer(ErrorCode.none, await self._producer_ids.take(), 0)
        if not transactional_id:
            return Answer(ErrorCode.invalid_request)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return Answer(ErrorCode.invalid_transaction_timeout)
        return await self._decide_patiently(
            transactional_id,
            lambda shard, now, fresh: shard.init_producer_id(transactional_id, timeout_ms, expected, fresh, now),
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = 0,
    ) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.invalid_request

        def operation(shard: TransactionShard, now_ms: int, fresh: int | None) -> Result:
            return shard.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version, now_ms
            )

        return (await self._decide_patiently(transactional_id, operation)).error

    async def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.invalid_request)
        try:
            found: dict[TopicPartition, ErrorCode] = await settled(
                self.runtime.read(
                    transactional_id,
                    lambda shard, _: shard.verify_partitions(transactional_id, producer_id, producer_epoch, partitions),
                )
            )
        except Fault as fault:
            return dict.fromkeys(partitions, fault.code)
        return found

    async def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
    ) -> Answer:
        if not transactional_id:
            return Answer(ErrorCode.invalid_request)
        return await self._decide_patiently(
            transactional_id,
            lambda shard, now, fresh: shard.end(
                transactional_id, producer_id, producer_epoch, commit, client_version, fresh, now
            ),
        )

    async def _decide_patiently(self, transactional_id: str, operation: Operation) -> Answer:
        """If the previous transaction is still ending, waits for that once instead of refusing the request."""
        decision = await self._decide(transactional_id, operation)
        if decision.answer.error is not ErrorCode.concurrent_transactions:
            return decision.answer
        if not await self._ended(transactional_id):
            return decision.answer
        return (await self._decide(transactional_id, operation)).answer

    async def _ended(self, transactional_id: str) -> bool:
        markers = self._markers.get(self.runtime.partition_of(transactional_id))
        task = None if markers is None else markers.pending(transactional_id)
        if task is None:
            return True
        done, _ = await asyncio.wait([task], timeout=_LONGEST_WAIT_SECONDS)
        return bool(done)

    async def _decide(self, transactional_id: str, operation: Operation) -> Decision:
        try:
            decision = await self._run(transactional_id, operation, None)
            if decision.needs_producer_id:
                decision = await self._run(transactional_id, operation, await self._producer_ids.take())
        except Fault as fault:
            return Decision(Answer(fault.code))
        return decision

    async def _run(self, transactional_id: str, operation: Operation, fresh: int | None) -> Decision:
        decision: Decision = await self.runtime.run(transactional_id, lambda shard, now: operation(shard, now, fresh))
        return decision

    # Requests of administrators

    async def describe(self, transactional_id: str) -> Transaction:
        """Raises the Fault for this id."""
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request, "a transactional id is empty")
        found: Transaction | None = await settled(
            self.runtime.read(transactional_id, lambda shard, _: shard.transactions.get(transactional_id))
        )
        if found is None:
            raise Refused(ErrorCode.transactional_id_not_found, f"transactional id {transactional_id!r} is not known")
        return found

    async def transactions(self, wanted: ListFilter) -> list[Transaction]:
        """The transactions of every shard led here. Raises the faults of `CoordinatorRuntime.read_all`."""
        return await self.runtime.read_all(lambda shard, now: list(wanted.matching(shard.transactions.values(), now)))

    def close(self) -> None:
        self.runtime.close()
