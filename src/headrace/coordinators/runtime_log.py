"""The log under one shard: a port of five verbs, and its implementation on a led partition.

The port keeps the runtime apart from replication: tests drive it with a log in memory, and the transaction, group and
share coordinators all stand on the same few verbs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Protocol

from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused
from headrace.storage.log import AppendOrigin

_READ_BYTES: Final = 5 * 1024 * 1024  # offsets.load.buffer.size: what one step of loading may hold in memory


class CoordinatorLog(Protocol):
    @property
    def end_offset(self) -> int:
        """Where the next record goes."""

    @property
    def committed_offset(self) -> int:
        """Everything below is committed (the high watermark)."""

    @property
    def max_batch_bytes(self) -> int: ...

    def refusal(self) -> Fault | None:
        """Why an append would be refused now, as far as that is known beforehand."""

    def append(self, batch: bytearray, now_ms: int, transaction_version: int = 0) -> int:
        """Write one batch as the leader; gives the offset after its last record. If it raises, nothing was written."""

    async def wait_committed(self, offset: int, timeout_ms: int) -> ErrorCode: ...

    def read_from_start(self) -> Iterator[bytes]:
        """The whole log as chunks of whole batches."""


class PartitionLog:
    """CoordinatorLog over `replication.partition.Partition`."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition

    @property
    def end_offset(self) -> int:
        return int(self._partition.log_end_offset)

    @property
    def committed_offset(self) -> int:
        return int(self._partition.high_watermark)

    @property
    def max_batch_bytes(self) -> int:
        return int(self._partition.log.config.max_message_bytes)

    def refusal(self) -> Fault | None:
        partition = self._partition
        isr = partition.isr
        if isr is None:
            return NotLeader(f"{partition.topic}-{partition.index}: another broker leads it")
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
        return int(appended.last_offset) + 1

    async def wait_committed(self, offset: int, timeout_ms: int) -> ErrorCode:
        error: ErrorCode = await self._partition.wait_committed(offset, timeout_ms)
        return error

    def read_from_start(self) -> Iterator[bytes]:
        log = self._partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, _READ_BYTES)
            if found is None:
                return
            data = os.pread(found.file.fileno(), found.length, found.position)
            yield data
            next_offset = _offset_after(data)
            if next_offset <= offset:
                return
            offset = next_offset


def _offset_after(data: bytes) -> int:
    """The offset after the last whole batch of `data`: what to read next."""
    at, end = 0, -1
    while at + 61 <= len(data):
        base_offset = int.from_bytes(data[at : at + 8], "big")
        length = int.from_bytes(data[at + 8 : at + 12], "big")
        end = base_offset + int.from_bytes(data[at + 23 : at + 27], "big") + 1
        at += 12 + length
    return end
