"""Writes that must be on the disk before they are acknowledged (`flush.before.ack`), sharing their fsyncs.

An fsync takes a hundred times as long as an append. One per write would make a disk's pace the topic's; so a log has at
most one under way, and whatever was appended meanwhile goes with the next one, however many writers that are.

Invariant: `synced` answers NONE only when the log's recovery point, which a flush moves after the disk said yes, is at
or past the asked offset. Owned by the event loop; the fsync itself runs in a thread.
"""

from __future__ import annotations

import asyncio

from headrace.kernel.errors import ErrorCode, StorageFault
from headrace.storage.log import Log


class GroupCommit:
    def __init__(self) -> None:
        self._under_way: dict[Log, asyncio.Task[None]] = {}

    async def synced(self, log: Log, offset_exclusive: int) -> ErrorCode:
        """Returns when everything below the offset is on this broker's disk, or cannot get there any more."""
        while log.recovery_point < offset_exclusive:
            if log.log_end_offset < offset_exclusive:
                return ErrorCode.not_leader_or_follower  # cut away again: another broker leads
            flush = self._under_way.get(log)
            if flush is None:
                flush = self._under_way[log] = asyncio.create_task(self._flush(log))
            try:
                # Shielded: a writer whose time is up must not take the others' fsync with it.
                await asyncio.shield(flush)
            except StorageFault as fault:
                return fault.code
        return ErrorCode.none

    async def _flush(self, log: Log) -> None:
        try:
            await asyncio.to_thread(log.flush)
        finally:
            del self._under_way[log]
