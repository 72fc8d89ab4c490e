"""Moves partitions between the processes of a unit, by reassignments, with progress. Runs in a broker process, which
reaches the controller as brokers do, whatever the listeners demand of clients.

Portions keep the load small, and an interruption leaves few moves in progress. The controller finishes them, and the
next start of the unit plans the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

from headrace.cluster.core.image import ClusterImage
from headrace.controller.gateway import ControllerGateway
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.plurals import counted
from headrace.unit.core.balance import Moves, balanced, drained, is_lopsided, obstacle, still_there, unfinished

log = logging.getLogger("headrace.unit")

_AT_ONCE: Final = 20
_REPORT_S: Final = 2.0
_PAUSE_S: Final = 0.5
_STUCK_S: Final = 20.0
_PASSES: Final = 20
_KNOWN_WITHIN_S: Final = 30.0

Report = Callable[[str], None]
MinInsync = Callable[[str], int]


def _has_left(broker: int, image: ClusterImage) -> bool:
    return broker not in image.brokers


class PartitionMoves:
    def __init__(self, gateway: ControllerGateway, min_insync: MinInsync, report: Report) -> None:
        """`min_insync`: the effective min.insync.replicas of a topic."""
        self._gateway = gateway
        self._min_insync = min_insync
        self._report = report

    async def balance(self, processes: Sequence[int]) -> None:
        """Spreads the partitions over the processes, if the unit has grown."""
        await self._until_known(processes)
        if is_lopsided(self._image, processes):
            moves = balanced(self._image, processes)
            await self._carry_out(moves, f"the unit has grown to {counted(len(processes), 'process', 'processes')}")

    async def drain(self, leaving: Sequence[int], staying: Sequence[int]) -> None:
        """Moves every replica off the leaving processes. Raises Refused if a topic needs more processes."""
        await self._until_known([*leaving, *staying])
        for _ in range(_PASSES):  # a topic may be created meanwhile, with replicas on a leaving process by its order
            moves = drained(self._image, leaving, staying)
            if not moves:
                return
            self._refuse_too_few(moves)
            named = ", ".join(map(str, leaving))
            await self._carry_out(moves, f"{'brokers' if len(leaving) > 1 else 'broker'} {named} will stop")
        raise Refused(ErrorCode.reassignment_in_progress, f"brokers {leaving} get new replicas again and again")

    async def unregister(self, brokers: Iterable[int]) -> None:
        """Removes stopped brokers without replicas from the cluster."""
        for broker in brokers:
            await self._gateway.view.wait_until(partial(_has_left, broker), _KNOWN_WITHIN_S)
            has_replicas = any(
                broker in info.replicas for topic in self._image.topics.values() for info in topic.partitions
            )
            if broker in self._image.fenced_brokers and not has_replicas:
                try:
                    await self._gateway.unregister_broker(broker)
                except Fault as fault:
                    log.warning("broker %d stays registered: %s", broker, fault.message)

    @property
    def _image(self) -> ClusterImage:
        return self._gateway.view.current

    async def _until_known(self, processes: Sequence[int]) -> None:
        """All processes serve, but this one may not have the newest image yet."""
        await self._gateway.view.wait_until(
            lambda image: all(broker in image.brokers for broker in processes), _KNOWN_WITHIN_S
        )

    def _refuse_too_few(self, moves: Moves) -> None:
        for partition, replicas in moves.items():
            needed = self._min_insync(partition.topic)
            before = len(self._image.topics[partition.topic].partitions[partition.partition].replicas)
            if len(replicas) < min(needed, before):
                raise Refused(
                    ErrorCode.invalid_replica_assignment,
                    f"topic {partition.topic} has min.insync.replicas={needed}, and only "
                    f"{counted(len(replicas), 'process', 'processes')} would be left for its replicas: keep at least "
                    f"{needed} processes, or lower min.insync.replicas of the topic first",
                )

    async def _carry_out(self, moves: Moves, why: str) -> None:
        left, done = iter(moves.items()), 0
        total = len(moves)
        ids = {partition.topic: self._image.topics[partition.topic].id for partition in moves}
        self._report(f"{why}: {counted(total, 'partition moves', 'partitions move')}")
        while planned := dict(islice(left, _AT_ONCE)):
            portion = still_there(self._image, planned, ids)
            for result in await self._gateway.alter_reassignments(portion):
                if result.error is ErrorCode.unknown_topic_or_partition:
                    portion.pop(result.partition, None)  # deleted meanwhile
                elif result.error is not ErrorCode.none:
                    raise Refused(result.error, f"{result.partition} does not move: {result.message or result.error}")
            await self._finished(portion, ids, done, total)
            done += len(planned)
            self._report(f"moved {done} of {counted(total, 'partition', 'partitions')}")

    async def _finished(self, portion: Moves, ids: Mapping[str, UUID], done: int, total: int) -> None:
        """Waits without a limit, because the unit serves meanwhile. After a while without progress it says why."""
        told, quiet_s = done, 0.0
        while not await self._gateway.view.wait_until(lambda image: not unfinished(image, portion, ids), _REPORT_S):
            waiting = unfinished(self._image, portion, ids)
            now = done + len(portion) - len(waiting)
            quiet_s = 0.0 if now != told else quiet_s + _REPORT_S + _PAUSE_S
            if now != told:
                self._report(f"moved {now} of {counted(total, 'partition', 'partitions')}")
                told = now
            elif quiet_s >= _STUCK_S and waiting:
                self._report(f"still moving {counted(len(waiting), 'partition')}: {obstacle(self._image, waiting[0])}")
                quiet_s = 0.0
            await asyncio.sleep(_PAUSE_S)
