"""Reports replicas on a full disk to the controller, so that other replicas lead and commit.

A full disk is temporary: no data is lost and reads continue. When there is room again, the replicas catch up and return
to the in-sync sets. Owned by the event loop: one task while there is something to report.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.controller.gateway import ControllerGateway
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.replication.replica import Replica

log = logging.getLogger("headrace.broker")

# Thousands of writes fail on a full disk; one report a second is enough.
_PAUSE_S: Final = 1.0


class FullDisks:
    def __init__(self, gateway: ControllerGateway) -> None:
        self._gateway = gateway
        self._full: set[TopicPartition] = set()
        self._task: asyncio.Task[None] | None = None

    def no_room_for(self, replica: Replica) -> None:
        known = self._gateway.view.current.partition(replica.topic, replica.index)
        if known is None or len(known.isr) < 2:
            return  # no other replica could lead
        self._full.add(TopicPartition(replica.topic, replica.index))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="full disk to the controller")

    async def _tell(self) -> None:
        while self._full:
            full, self._full = sorted(self._full), set()
            log.error(
                "no room for %d replicas on this broker: others are asked to lead and go on without them", len(full)
            )
            try:
                await self._gateway.report_full(full)
            except Fault as fault:
                log.error(
                    "the report of %d replicas on a full disk did not reach the controller: %s",
                    len(full),
                    fault.message,
                )
            await asyncio.sleep(_PAUSE_S)
        self._task = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
