"""Asks the transaction coordinator whether a producer may write its first transactional batch to a partition (KIP-890).

The first batch of a transaction in this partition might be late: its transaction may have ended, and the batch would
then open a transaction that never ends. So the coordinator is asked first. From v12 on the same request also adds the
partition to the transaction, which saves the client a request.

Meanwhile the partition keeps the lowest sequence number that waits. If the first batch gets a retriable error and the
second, already in flight, does not, the second must not be appended before the first.

Other requests run while the coordinator is asked: this broker may begin to lead a partition of the request, or a marker
may end a transaction that was open. So the append checks every transactional batch again: its transaction must still be
open, or its guard must still be valid.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.wire.produce import ProduceRequest

_ATTRIBUTES_LOW_AT: Final = 22
_TRANSACTIONAL: Final = 0x10
_read_producer: Final = struct.Struct(">qhi").unpack_from
_PRODUCER_AT: Final = 43

_ADDS_FROM: Final = 12
_ABORTABLE_FROM: Final = 11
# Errors that a client cannot handle are translated to retriable ones.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)

Place = tuple[str | bytes, int]


class TransactionVerifier(Protocol):
    """Asks the coordinator of a transactional id, on this broker or another."""

    def is_required(self, *, add: bool) -> bool: ...

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, ErrorCode]: ...


@dataclass(frozen=True)
class UnverifiedBatch:
    """A batch that would open a transaction in the partition, with its position in the request."""

    place: Place
    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    guard: object


@dataclass(frozen=True)
class TransactionGuard:
    partitions: Partitions
    verifier: TransactionVerifier

    def is_required(self, version: int) -> bool:
        """False if transaction.partition.verification.enable is off and the client adds its partitions itself."""
        return self.verifier.is_required(add=version >= _ADDS_FROM)

    def unverified(
        self, request: ProduceRequest, version: int, now_ms: int, refused: dict[Place, Fault]
    ) -> list[UnverifiedBatch]:
        """The batches that need verification. Adds the batches to `refused` whose partition this broker does not lead:
        it may lead one after the verification of the others, and nobody has added that partition to the transaction.

        A refused batch is left out, because verification may add its partition to the transaction.
        """
        found = []
        for topic, partitions in request.topics:
            for index, records in partitions:
                if records is None or len(records) < HEADER_BYTES or not records[_ATTRIBUTES_LOW_AT] & _TRANSACTIONAL:
                    continue
                place = (topic, index)
                if place in refused:
                    continue
                try:
                    partition = self._partition(topic, index)
                    partition.check_leads()
                except Fault as fault:
                    refused[place] = fault
                    continue
                producer_id, producer_epoch, sequence = _read_producer(records, _PRODUCER_AT)
                guard = partition.log.producers.start_verification(
                    producer_id, producer_epoch, sequence, supports_epoch_bump=version >= _ADDS_FROM, now_ms=now_ms
                )
                if guard is not None:
                    name = TopicPartition(partition.topic, index)
                    found.append(UnverifiedBatch(place, name, producer_id, producer_epoch, guard))
        return found

    def _partition(self, topic: str | bytes, index: int) -> Partition:
        if isinstance(topic, str):
            return self.partitions.led(topic, index)
        return self.partitions.by_id(topic, index)

    async def ask(self, transactional_id: str, batches: list[UnverifiedBatch], version: int) -> dict[Place, Fault]:
        """The errors of batches that may not be appended."""
        faults: dict[Place, Fault] = {}
        by_producer: dict[tuple[int, int], list[UnverifiedBatch]] = {}
        for batch in batches:
            by_producer.setdefault((batch.producer_id, batch.producer_epoch), []).append(batch)
        if len({batch.producer_id for batch in batches}) > 1:
            mixed = Refused(ErrorCode.invalid_producer_id_mapping, "batches of more than one producer in a transaction")
            return {batch.place: mixed for batch in batches}
        for (producer_id, producer_epoch), group in by_producer.items():
            asked = [batch.partition for batch in group]
            answers = await self.verifier.verify(
                transactional_id, producer_id, producer_epoch, asked, add=version >= _ADDS_FROM
            )
            for batch in group:
                code = answers.get(batch.partition, ErrorCode.unknown_server_error)
                if code is not ErrorCode.none:
                    faults[batch.place] = _as_producers_know_it(code, batch.partition, version)
        return faults


def _as_producers_know_it(code: ErrorCode, partition: TopicPartition, version: int) -> Fault:
    if code in _TRY_AGAIN and not (code is ErrorCode.concurrent_transactions and version >= _ADDS_FROM):
        return Refused(
            ErrorCode.not_enough_replicas, f"{partition}: its transaction cannot be verified now ({code.name})"
        )
    if code is ErrorCode.producer_fenced:
        return Refused(ErrorCode.invalid_producer_epoch, f"{partition}: a newer producer has this transactional id")
    if code is ErrorCode.transaction_abortable and version < _ABORTABLE_FROM:
        code = ErrorCode.invalid_txn_state
    return Refused(code, f"{partition} is not part of the transaction ({code.name})")
