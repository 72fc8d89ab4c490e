"""Reports replicas on failed and missing disks to the controller, until it confirms, so that other replicas lead.

The controller drops the report when this broker registers again, because the disk may have been replaced. So the broker
reports again after each registration. Otherwise it could be elected for a partition that it can neither read nor write.
Owned by the event loop: one task while there is something to report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition

log = logging.getLogger("headrace.broker")

_PAUSE_S: Final = 1.0


class ToController(Protocol):
    """The part of ControllerGateway that reports need."""

    async def replicas_lost(self, lost: list[TopicPartition], /) -> None: ...


class FailedDisks:
    def __init__(self, gateway: ToController, lost: Callable[[], list[TopicPartition]]) -> None:
        self._gateway = gateway
        self._lost = lost
        self._untold = False
        self._task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """A disk failed, or this broker has registered again."""
        self._untold = bool(self._lost())
        if self._untold and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="failed disk to the controller")

    async def _tell(self) -> None:
        while self._untold:
            self._untold = False
            lost = self._lost()
            try:
                await self._gateway.replicas_lost(lost)
            except Fault as fault:
                self._untold = True
                log.error(
                    "the report of %d replicas on a failed disk did not reach the controller: %s",
                    len(lost),
                    fault.message,
                )
                await asyncio.sleep(_PAUSE_S)
        self._task = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
