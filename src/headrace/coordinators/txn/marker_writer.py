"""Writes transaction markers to the partitions that this broker leads, for its own coordinator and for WriteTxnMarkers.

A marker for `__consumer_offsets` goes through the group coordinator, which then applies or drops the offsets of the
transaction. Every marker also ends the verifications of that producer in the partition: they were for the transaction
that has just ended (see `verification`).

A coordinator repeats a marker until it is acknowledged, so one may arrive twice, the second time perhaps during the
producer's next transaction. In version 2 each end has an epoch of its own, so the log rejects the second one by its
epoch (INVALID_PRODUCER_EPOCH). The coordinator takes that as "already written", so it gets that answer only when the
first marker is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from headrace.coordinators.txn.verification_guards import VerificationGuards
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition
from headrace.records.control import build_end_txn_marker
from headrace.replication.partition import Partition
from headrace.storage.log import AppendOrigin

# The transaction coordinator does not know these; "not leader" makes it look up the leader again.
_GROUP_COORDINATOR_MOVES: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)


@dataclass(frozen=True, slots=True)
class EndMarker:
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


class GroupTransactions(Protocol):
    """What the writer needs of the group coordinator's runtime."""

    async def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> None: ...


class LedPartitions(Protocol):
    def led(self, topic: str, index: int) -> Partition: ...


class MarkerWriter:
    """Owned by the event loop."""

    def __init__(
        self,
        partitions: LedPartitions,
        groups: GroupTransactions,
        guards: VerificationGuards,
        clock: Callable[[], int],
        *,
        timeout_ms: int = 30_000,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._guards = guards
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(self, where: TopicPartition, marker: EndMarker) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Append the marker; gives the outcome at once where it is committed at once."""
        self._guards.transaction_ended(where, marker.producer_id, marker.producer_epoch)
        if where.topic == GROUP_METADATA_TOPIC:
            return asyncio.ensure_future(self._write_through_groups(where, marker))
        try:
            partition = self._partitions.led(where.topic, where.partition)
            now_ms = self._clock()
            data = build_end_txn_marker(
                marker.commit, marker.coordinator_epoch, marker.producer_id, marker.producer_epoch, now_ms
            )
            appended = partition.append(
                memoryview(bytearray(data)),
                acks=-1,
                origin=AppendOrigin.COORDINATOR,
                now_ms=now_ms,
                transaction_version=marker.transaction_version,
            )
        except Fault as fault:
            if fault.code is ErrorCode.invalid_producer_epoch:
                return self._once_committed(partition, partition.log_end_offset, fault.code)
            return fault.code
        return self._once_committed(partition, appended.last_offset + 1, ErrorCode.none)

    def _once_committed(
        self, partition: Partition, end_offset: int, outcome: ErrorCode
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """`outcome`, as soon as all records below `end_offset` are committed, else the error."""
        committed = partition.committed(end_offset)
        if committed is not None:
            return outcome if committed is ErrorCode.none else committed

        async def wait() -> ErrorCode:
            error: ErrorCode = await partition.wait_committed(end_offset, self._timeout_ms)
            return outcome if error is ErrorCode.none else error

        return asyncio.ensure_future(wait())

    async def _write_through_groups(self, where: TopicPartition, marker: EndMarker) -> ErrorCode:
        try:
            await self._groups.complete_transaction(
                where.partition,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.commit,
                marker.transaction_version,
            )
        except Fault as fault:
            if fault.code is ErrorCode.invalid_producer_epoch:
                return await self._already_there(where, fault.code)
            return ErrorCode.not_leader_or_follower if fault.code in _GROUP_COORDINATOR_MOVES else fault.code
        return ErrorCode.none

    async def _already_there(self, where: TopicPartition, outcome: ErrorCode) -> ErrorCode:
        try:
            partition = self._partitions.led(where.topic, where.partition)
        except Fault as fault:
            return fault.code
        found = self._once_committed(partition, partition.log_end_offset, outcome)
        return found if isinstance(found, ErrorCode) else await found
