"""Sends ISR proposals of all partitions to the controller (AlterPartition) over one connection.

It repeats a proposal until the controller answers or the partition has changed (new ISR, new leader). A lost answer
leaves the proposal in doubt and its additions counted (`core/isr`), so repeating is safe and giving up would not help.
Proposals that arise while a request is in flight go together into the next request. Owned by the event loop: one task.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final
from uuid import UUID

from headrace.cluster.view import ClusterView
from headrace.coordination.fallback_channel import Connect, ControllerConnection
from headrace.kernel.errors import ErrorCode, Fault
from headrace.replication.core.isr import IsrProposal
from headrace.replication.partition import Partition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

logger = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 0.1
_TIMEOUT_S: Final = 10.0
# The controller did not process the proposal: send the same one again.
_NOT_PROCESSED: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.unknown_server_error,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.stale_broker_epoch,
    }
)


class ControllerIsrChanges:
    def __init__(
        self,
        view: ClusterView,
        listener: str,
        broker_id: int,
        connect: Connect,
    ) -> None:
        self._view = view
        self._listener = listener
        self._broker_id = broker_id
        self._connect = connect
        self._pending: dict[Partition, IsrProposal] = {}
        self._wanted = asyncio.Event()
        self._connection: ControllerConnection | None = None
        self._connected_to: tuple[str, int] | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_logged_error: str | None = None  # last logged reason why the controller is unreachable

    def ask(self, partition: Partition, proposal: IsrProposal) -> None:
        self._pending[partition] = proposal
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="in-sync sets to the controller")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._disconnect()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            asked = self._still_wanted()
            if not asked:
                continue
            try:
                await self._ask_controller(asked)
                self._last_logged_error = None
            except (Fault, OSError) as error:
                if str(error) != self._last_logged_error:  # repeated ten times a second until there is a new controller
                    self._last_logged_error = str(error)
                    logger.info("the controller could not be asked for in-sync sets: %s", error)
                await self._disconnect()
            except Exception:  # the boundary of a round: a bug in one round must not end the task
                logger.exception("asking the controller for in-sync sets failed")
                await self._disconnect()
            if self._still_wanted():
                self._wanted.set()
                await asyncio.sleep(_RETRY_PAUSE_S)

    def _still_wanted(self) -> dict[Partition, IsrProposal]:
        """Drops proposals whose partition has changed."""
        self._pending = {
            partition: proposal
            for partition, proposal in self._pending.items()
            if partition.isr is not None and partition.isr.proposal is proposal
        }
        return dict(self._pending)

    async def _ask_controller(self, asked: dict[Partition, IsrProposal]) -> None:
        connection = await self._connected()
        topics: dict[UUID | None, list[Body]] = {}
        by_key: dict[tuple[UUID | None, int], tuple[Partition, IsrProposal]] = {}
        for partition, proposal in asked.items():
            by_key[partition.topic_id, partition.index] = (partition, proposal)
            topics.setdefault(partition.topic_id, []).append(
                {
                    "partition_index": partition.index,
                    "leader_epoch": proposal.leader_epoch,
                    "new_isr_with_epochs": [{"broker_id": b, "broker_epoch": e} for b, e in proposal.members],
                    "leader_recovery_state": 0,
                    "partition_epoch": proposal.partition_epoch,
                }
            )
        body = {
            "broker_id": self._broker_id,
            # All partitions of a broker have the same broker epoch.
            "broker_epoch": next(iter(asked)).around.broker_epoch,
            "topics": [{"topic_id": topic_id, "partitions": items} for topic_id, items in topics.items()],
        }
        answer = await connection.request(ApiKey.ALTER_PARTITION, body, version=3, timeout=_TIMEOUT_S)
        if answer.error_code != ErrorCode.none:
            if answer.error_code == ErrorCode.not_controller:
                await self._disconnect()
            return
        for topic in answer.topics:
            for data in topic.partitions:
                found = by_key.get((topic.topic_id, int(data.partition_index)))
                if found is not None:
                    self._take(*found, data)

    def _take(self, partition: Partition, proposal: IsrProposal, data: Entity) -> None:
        code = data.error_code
        if code in _NOT_PROCESSED:
            return
        if self._pending.get(partition) is proposal:
            del self._pending[partition]
        if code == ErrorCode.new_leader_elected:
            logger.info("%r: the controller elected another leader", partition)
            return
        if code != ErrorCode.none:
            logger.info("%r: the controller refuses the in-sync set %s: %s", partition, sorted(proposal.ids), code.name)
            partition.isr_refused(proposal)
            return
        info = partition.info
        if info is not None and partition.isr is not None and int(data.leader_epoch) == info.leader_epoch:
            isr = tuple(int(broker) for broker in data.isr)
            if not set(info.isr) <= set(isr):
                # A smaller ISR counts only when the image has it. By then this broker also has the value of
                # min.insync.replicas with which the controller chose the eligible leader replicas.
                return
            partition.update(replace(info, isr=isr, partition_epoch=int(data.partition_epoch)))

    async def _connected(self) -> ControllerConnection:
        image = self._view.current
        controller = image.brokers.get(image.controller_id)
        endpoint = controller.endpoint(self._listener) if controller is not None else None
        if endpoint is None:
            raise ConnectionError("no controller is known")
        address = (endpoint.host, endpoint.port)
        if self._connection is not None and not self._connection.closed and self._connected_to == address:
            return self._connection
        await self._disconnect()
        self._connection = await self._connect(*address, client_id=f"broker-{self._broker_id}-isr", timeout=_TIMEOUT_S)
        self._connected_to = address
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
