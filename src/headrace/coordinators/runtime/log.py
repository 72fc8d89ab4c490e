"""The log under one shard: a port, and its implementation on a led partition.

The port separates the runtime from replication. Tests use a log in memory. The transaction, group and share
coordinators use the same port.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, Protocol

from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused
from headrace.records.batch import HEADER_BYTES
from headrace.replication.partition import Partition
from headrace.storage.log import AppendOrigin

LOAD_BYTES: Final = 5 * 1024 * 1024  # the default of all coordinators' load buffers


# What a failed write means to a client of a coordinator (Kafka's table): retry, or find the coordinator again.
_WRITE_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def coordinator_error(error: ErrorCode) -> ErrorCode:
    return _WRITE_ERRORS.get(error, error)


class CoordinatorLog(Protocol):
    @property
    def end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def committed_offset(self) -> int:
        """Everything below is committed (the high watermark)."""

    @property
    def is_committed(self) -> bool:
        """Whether all its records are committed."""

    @property
    def max_batch_bytes(self) -> int: ...

    @property
    def is_led(self) -> bool:
        """Whether this broker leads the log, and no other broker can lead it yet: its lease has not ended."""

    def refusal(self) -> Fault | None:
        """The reason why an append would be refused now, if known."""

    def append(self, batch: bytearray, now_ms: int, transaction_version: int = 0) -> int:
        """Writes one batch as the leader. Returns the offset after its last record. If it raises, nothing was
        written."""

    async def wait_committed(self, offset: int, timeout_ms: int) -> ErrorCode: ...

    def read_from_start(self) -> Iterator[bytes]:
        """The whole log as chunks of whole batches."""


class PartitionLog:
    """CoordinatorLog over `replication.partition.Partition`."""

    def __init__(self, partition: Partition, load_bytes: int = LOAD_BYTES) -> None:
        self._partition = partition
        self._load_bytes = load_bytes

    @property
    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    @property
    def committed_offset(self) -> int:
        return self._partition.log.high_watermark

    @property
    def is_committed(self) -> bool:
        log = self._partition.log
        return log.high_watermark >= log.log_end_offset

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.config.max_message_bytes

    @property
    def is_led(self) -> bool:
        partition = self._partition
        return partition.isr is not None and partition.around.lease_held()

    def refusal(self) -> Fault | None:
        partition = self._partition
        isr = partition.isr
        if isr is None or not partition.around.lease_held():
            return NotLeader(f"{partition.topic}-{partition.index}: another broker may lead it")
        if not isr.has_enough_replicas:
            name = f"{partition.topic}-{partition.index}"
            return Refused(ErrorCode.not_enough_replicas, f"{name}: fewer replicas in sync than min.insync.replicas")
        return None

    def append(self, batch: bytearray, now_ms: int, transaction_version: int = 0) -> int:
        appended = self._partition.append(
            memoryview(batch),
            acks=-1,
            origin=AppendOrigin.COORDINATOR,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        return appended.last_offset + 1

    async def wait_committed(self, offset: int, timeout_ms: int) -> ErrorCode:
        return await self._partition.wait_committed(offset, timeout_ms)

    def read_from_start(self) -> Iterator[bytes]:
        offset = self._partition.log.log_start_offset
        # Asked for each chunk: a move to another log directory may end meanwhile, and closes the old log.
        while offset < (log := self._partition.log).log_end_offset:
            found = log.read(offset, self._load_bytes)
            if found is None:
                return
            data = os.pread(found.file.fileno(), found.length, found.position)
            yield data
            next_offset = _offset_after(data)
            if next_offset <= offset:
                return
            offset = next_offset


def _offset_after(data: bytes) -> int:
    """The offset after the last whole batch of `data`: the next offset to read."""
    at, end = 0, -1
    while at + HEADER_BYTES <= len(data):
        base_offset = int.from_bytes(data[at : at + 8], "big")
        length = int.from_bytes(data[at + 8 : at + 12], "big")
        end = base_offset + int.from_bytes(data[at + 23 : at + 27], "big") + 1
        at += 12 + length
    return end
