"""Writes the changes of one share partition to the share coordinator: one write at a time, with all gathered changes.

One at a time, because a write carries the start offset: if an older write were retried and arrived after a newer one,
the start offset would go back. A change that cannot be written is reverted, and its member keeps the records. Unloading
the share partition instead would deliver records that other members hold. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from headrace.coordinators.codec.share_state import StateBatch
from headrace.coordinators.share.core.share_partition import Changes, SharePartition, ShareProgress
from headrace.kernel.errors import Fault

_log = logging.getLogger(__name__)

Write = Callable[[ShareProgress, Sequence[StateBatch]], Awaitable[None]]


class Outbox:
    def __init__(self, name: str, core: SharePartition, write: Write, clock: Callable[[], int]) -> None:
        """`write` raises a Fault when nothing was written or the outcome is unknown."""
        self._name = name
        self._core = core
        self._write = write
        self._clock = clock
        self._gathered: list[tuple[Changes, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return self._task is None

    def put(self, changes: Changes) -> asyncio.Future[None]:
        """The future is done when the change is durable, or fails with its Fault. Awaiting it is optional."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not changes.batches:
            done.set_result(None)
            return done
        done.add_done_callback(self._noticed)
        self._gathered.append((changes, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._empty())
        return done

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _empty(self) -> None:
        try:
            while self._gathered:
                gathered, self._gathered = self._gathered, []
                await self._write_down([changes for changes, _ in gathered], [done for _, done in gathered])
        finally:
            self._task = None
            for _, done in self._gathered:
                done.cancel()

    async def _write_down(self, gathered: Sequence[Changes], waiting: Sequence[asyncio.Future[None]]) -> None:
        numbers = {changes.number for changes in gathered if changes.number is not None}
        try:
            await self._write(
                self._core.standing(numbers), [batch for changes in gathered for batch in changes.batches]
            )
        except Fault as fault:
            self._core.undone(numbers, self._clock())
            for done in waiting:
                if not done.done():
                    done.set_exception(fault)
        except BaseException:  # also a cancelled write: its waiting callers must get the error
            for done in waiting:
                done.cancel()
            raise
        else:
            self._core.done(numbers)
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    def _noticed(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (fault := done.exception()) is not None:
            _log.debug("%s: a change was not written: %s", self._name, fault)
