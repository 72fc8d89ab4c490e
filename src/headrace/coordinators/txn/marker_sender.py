"""Sends the markers of prepared transactions to the partition leaders, and repeats until every marker is written.

If this broker leads all partitions of a transaction with replication factor 1, `begin` does everything: the transaction
is complete before the answer to EndTxn is sent. Otherwise a task continues: it writes directly to partitions led here
and sends WriteTxnMarkers to other leaders. It looks up the leaders again after each round, because they may have moved.

A task ends when all markers are written, when the shard is unloaded (`forget`), or when a partition has seen a newer
coordinator. A partition of a deleted topic needs no marker. Neither does one that rejects the epoch: only the end of
this transaction can have raised that epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from headrace.cluster.view import ClusterView
from headrace.coordinators.peers import Peers
from headrace.coordinators.txn.core.transaction import Transaction, TransactionState
from headrace.coordinators.txn.marker_writer import EndMarker, MarkerWriter
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0
# Outcomes that need no retry: written, written before (see `marker_writer`), or the partition needs no marker.
_DONE: Final = frozenset({ErrorCode.none, ErrorCode.invalid_producer_epoch, ErrorCode.unsupported_for_message_format})

Outcomes = dict[TopicPartition, ErrorCode]
Complete = Callable[[Transaction], object]


class ShardMarkers:
    """The MarkerSender of one shard. `complete(prepared)` submits the shard's completion and gives its reply or
    future."""

    def __init__(
        self,
        view: ClusterView,
        broker_id: int,
        writer: MarkerWriter,
        peers: Peers,
        coordinator_epoch: Callable[[], int],
        complete: Complete,
    ) -> None:
        self._view = view
        self._broker_id = broker_id
        self._writer = writer
        self._peers = peers
        self._coordinator_epoch = coordinator_epoch
        self._complete = complete
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, prepared: Transaction) -> bool:
        marker = EndMarker(
            prepared.producer_id,
            prepared.producer_epoch,
            prepared.state is TransactionState.PREPARE_COMMIT,
            self._coordinator_epoch(),
            prepared.client_version,
        )
        left: dict[TopicPartition, asyncio.Future[ErrorCode] | None] = {}
        for where in prepared.partitions:
            leader = self._leader(where)
            if leader is None:
                continue
            outcome = self._writer.write(where, marker) if leader == self._broker_id else None
            if not isinstance(outcome, ErrorCode):
                left[where] = outcome
            elif outcome not in _DONE:
                left[where] = None
        if not left:
            return True
        task = asyncio.get_running_loop().create_task(self._finish(prepared, marker, left))
        self._tasks[prepared.transactional_id] = task
        task.add_done_callback(lambda done: self._ended(prepared.transactional_id, done))
        return False

    def forget(self) -> None:
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()

    def pending(self, transactional_id: str) -> asyncio.Task[None] | None:
        """The task that ends this transaction, for callers that wait for it."""
        return self._tasks.get(transactional_id)

    def _leader(self, where: TopicPartition) -> int | None:
        info = self._view.current.partition(where.topic, where.partition)
        return None if info is None else info.leader

    def _ended(self, transactional_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(transactional_id) is task:
            del self._tasks[transactional_id]
        if not task.cancelled() and task.exception() is not None:
            logger.error("markers of transaction %r were given up", transactional_id, exc_info=task.exception())

    async def _finish(
        self,
        prepared: Transaction,
        marker: EndMarker,
        begun: dict[TopicPartition, asyncio.Future[ErrorCode] | None],
    ) -> None:
        outcomes = {where: await f for where, f in begun.items() if f is not None}
        left = {where for where in begun if outcomes.get(where) not in _DONE}
        pause = _FIRST_PAUSE_SECONDS
        # The first round follows at once when nothing was tried yet: these are partitions of other leaders.
        if outcomes and left == set(outcomes):
            await asyncio.sleep(pause)
        while left:
            outcomes = await self._round(left, marker)
            if ErrorCode.transaction_coordinator_fenced in outcomes.values():
                logger.warning("transaction %r: a newer coordinator has taken over", prepared.transactional_id)
                return
            left = {where for where in left if outcomes.get(where) not in _DONE}
            if left:
                logger.info("transaction %r: %d markers are tried again", prepared.transactional_id, len(left))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        await self._write_completion(prepared)

    async def _write_completion(self, prepared: Transaction) -> None:
        """Repeats until the record is committed. Only `forget` ends it earlier: a failed write has the same error as a
        shard that is unloaded (NOT_COORDINATOR on a full disk), and without the record the transaction never ends.
        """
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                reply = self._complete(prepared)
                if isinstance(reply, asyncio.Future):
                    await reply
                return
            except Fault as fault:
                logger.info("transaction %r: its end is written again: %s", prepared.transactional_id, fault.message)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _round(self, left: Iterable[TopicPartition], marker: EndMarker) -> Outcomes:
        outcomes: Outcomes = {}
        remote: dict[int, list[TopicPartition]] = {}
        waiting: list[Awaitable[Outcomes]] = []
        for where in left:
            leader = self._leader(where)
            if leader is None:
                outcomes[where] = ErrorCode.none
            elif leader == self._broker_id:
                waiting.append(self._write_here(where, marker))
            elif leader >= 0:
                remote.setdefault(leader, []).append(where)
        waiting += [self._send(leader, partitions, marker) for leader, partitions in remote.items()]
        for answered in await asyncio.gather(*waiting):
            outcomes |= answered
        return outcomes

    async def _write_here(self, where: TopicPartition, marker: EndMarker) -> Outcomes:
        outcome = self._writer.write(where, marker)
        return {where: outcome if isinstance(outcome, ErrorCode) else await outcome}

    async def _send(self, leader: int, partitions: list[TopicPartition], marker: EndMarker) -> Outcomes:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        body = {
            "markers": [
                {
                    "producer_id": marker.producer_id,
                    "producer_epoch": marker.producer_epoch,
                    "transaction_result": marker.commit,
                    "topics": [{"name": t, "partition_indexes": indexes} for t, indexes in by_topic.items()],
                    "coordinator_epoch": marker.coordinator_epoch,
                    "transaction_version": marker.transaction_version,
                }
            ]
        }
        try:
            answer = await self._peers.request(leader, ApiKey.WRITE_TXN_MARKERS, body)
        except Fault as fault:
            return dict.fromkeys(partitions, fault.code)
        return {
            TopicPartition(str(topic.name), int(p.partition_index)): ErrorCode(p.error_code)
            for result in answer.markers
            for topic in result.topics
            for p in topic.partitions
        }
