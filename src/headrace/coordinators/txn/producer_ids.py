"""Producer ids, unique in the cluster: allocated from a block that the controller gave to this broker alone.

The broker requests the next block before the current one is used up, so allocating an id almost never waits. The rest
of a block is lost when the broker stops: gaps do no harm, and no id is allocated twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused

logger = logging.getLogger(__name__)

_FETCH_AHEAD_AT: Final = 0.9  # of a block used up; Kafka's RPCProducerIdManager does the same
_LONGEST_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    size: int


class ProducerIds:
    """Owned by the event loop."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._ahead_at = 0
        self._following: ProducerIdBlock | None = None
        self._fetching: asyncio.Task[None] | None = None

    def take_now(self) -> int | None:
        """An id, or None if the block is used up."""
        if self._next == self._end:
            if self._following is None:
                return None
            self._start(self._following)
        taken = self._next
        self._next += 1
        if self._next >= self._ahead_at:
            self._fetch_ahead()
        return taken

    async def take(self) -> int:
        """Raises COORDINATOR_LOAD_IN_PROGRESS, which every client retries, when the controller gives no block."""
        taken = self.take_now()
        if taken is not None:
            return taken
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                while taken is None:
                    await asyncio.shield(self._fetch_ahead())
                    taken = self.take_now()
        except (TimeoutError, Fault) as error:
            raise Refused(
                ErrorCode.coordinator_load_in_progress, f"no producer ids from the controller yet ({error}): try again"
            ) from error
        return taken

    def _start(self, block: ProducerIdBlock) -> None:
        self._next, self._end = block.first, block.first + block.size
        self._ahead_at = block.first + int(block.size * _FETCH_AHEAD_AT)
        self._following = None

    def _fetch_ahead(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
            self._fetching.add_done_callback(_observe)
        return self._fetching

    async def _fetch(self) -> None:
        if self._following is None:
            self._following = await self._allocate()

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])


def _observe(task: asyncio.Task[None]) -> None:
    """Logs the failure of a prefetch without a waiting caller; the next caller retries."""
    if not task.cancelled() and task.exception() is not None:
        logger.warning("no block of producer ids: %s", task.exception())
