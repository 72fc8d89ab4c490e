"""Reports what this broker lacks to the controller, until it confirms, so that other replicas lead.

A registration names all losses, so the controller knows them before it elects. A report follows when they change: a
disk fails, or a replica has its records again. A controller of an earlier release ignores the losses of a registration,
does not store those of a report, and understands only the report. So there is one after each registration, too, and one
for each new controller. Owned by the event loop: one task while there is something to report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.kernel.errors import Fault

log = logging.getLogger("headrace.broker")

# Between two attempts, and between the reports of replicas that fetch their records again.
_PAUSE_S: Final = 1.0


class ToController(Protocol):
    """The part of ControllerGateway that reports need."""

    async def report_losses(self, losses: ReplicaLosses, /) -> None: ...


class LossReports:
    def __init__(self, gateway: ToController, losses: Callable[[], ReplicaLosses]) -> None:
        self._gateway = gateway
        self._losses = losses
        self._told: ReplicaLosses | None = NO_LOSSES
        self._is_registered = False
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    def registered(self, losses: ReplicaLosses) -> None:
        """This broker has registered again, with these losses."""
        self._is_registered = True
        self._told = None if losses else NO_LOSSES
        self.tell()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        # The first image of a start comes before the registration: the controller would refuse the report.
        if old.controller_epoch == new.controller_epoch or not self._is_registered:
            return
        if self._losses() or self._told != NO_LOSSES:
            # Also if nothing is lost any more and the former controller was not told yet: its image has the losses.
            self._told = None
            self.tell()

    def tell(self) -> None:
        """The losses may have changed."""
        if self._task is None and self._losses() != self._told:
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="losses to the controller")

    def tell_later(self) -> None:
        """Replicas have their records again. That is not urgent, and more will follow."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_PAUSE_S, self._tell_now)

    def _tell_now(self) -> None:
        self._later = None
        self.tell()

    async def _tell(self) -> None:
        try:
            while (losses := self._losses()) != self._told:
                try:
                    await self._gateway.report_losses(losses)
                    self._told = losses
                except Fault as fault:
                    log.error("the controller was not told which replicas lack records: %s", fault.message)
                    await asyncio.sleep(_PAUSE_S)
        finally:
            self._task = None

    async def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
