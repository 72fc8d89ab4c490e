"""Group commit: writes that must be on disk before they are acknowledged (`flush.before.ack`) share their fsyncs.

An fsync takes a hundred times as long as an append. One per write would limit a topic to the speed of the disk. So a
log has at most one fsync in progress, and the next one covers everything that was appended meanwhile.

Invariant: `synced` returns NONE only when the log's recovery point, which a flush moves after the fsync succeeded, is
at or past the given offset. Owned by the event loop; the fsync itself runs in a thread.
"""

from __future__ import annotations

import asyncio

from headrace.kernel.errors import ErrorCode, StorageFault
from headrace.storage.log import Log


class GroupCommit:
    def __init__(self) -> None:
        self._under_way: dict[Log, asyncio.Task[None]] = {}

    async def synced(self, log: Log, offset_exclusive: int) -> ErrorCode:
        """Returns when all records below the offset are on this broker's disk, or can no longer be."""
        while log.recovery_point < offset_exclusive:
            if log.log_end_offset < offset_exclusive:
                return ErrorCode.not_leader_or_follower  # truncated: another broker leads
            flush = self._under_way.get(log)
            if flush is None:
                flush = self._under_way[log] = asyncio.create_task(self._flush(log))
            try:
                # Shielded: a writer that times out must not cancel the fsync of the others.
                await asyncio.shield(flush)
            except StorageFault as fault:
                # A log that was replaced by a copy in another directory has its records on that disk.
                if log.recovery_point < offset_exclusive:
                    return fault.code
        return ErrorCode.none

    async def _flush(self, log: Log) -> None:
        try:
            await asyncio.to_thread(log.flush)
        finally:
            del self._under_way[log]
