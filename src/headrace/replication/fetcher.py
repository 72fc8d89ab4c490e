"""The connection to one leader, over which this broker follows all partitions that it leads.

    build (positions that are due) ──► one Fetch ──► each partition's answer: append, cut, start over or back off ──►
    again

One request is under way at a time; the leader holds it until there is something to send
(`replica.fetch.wait.max.ms`), so nothing polls and an appended record reaches the follower in one hop. Logs are
reconciled inside the fetch itself: it names the epoch of the last record held (see `core/follower`). An answer counts
only if the partition still follows this leader in the same epoch and still ends where it ended when the request left.

Owned by the event loop: one task per leader, started with the first partition and ended with `close`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.connection import Connection
from headrace.kernel.errors import CorruptBatch, ErrorCode, Fault
from headrace.replication.core.fetch_session import FetchPosition, FetchSession, PartitionKey
from headrace.replication.core.leader import EpochEnd
from headrace.replication.partition import Partition

logger = logging.getLogger(__name__)

FETCH: Final = 1
LIST_OFFSETS: Final = 2
_EARLIEST: Final = -2
# Leadership settles within an image or two: these are asked again soon, other errors after the full back-off.
_PASSING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
    }
)
_PASSING_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`replica.fetch.*` and `replica.socket.timeout.ms`."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000


# `Connection.open`, or what stands for it in a simulation.
Connect = Callable[..., Awaitable[Connection]]


class Throttle:
    """Which partitions are held back right now, and what was copied for them. This one never holds anything back."""

    def holds_back(self, partition: Partition) -> bool:
        return False

    def copied(self, partition: Partition, size_bytes: int) -> None:
        pass


class LeaderFetcher:
    def __init__(
        self,
        leader: int,
        address: Callable[[], tuple[str, int] | None],
        own: Callable[[], tuple[int, int]],
        settings: FetchSettings,
        throttle: Throttle,
        connect: Connect = Connection.open,
    ) -> None:
        self.leader = leader
        self.partitions: dict[PartitionKey, Partition] = {}
        self._address = address
        self._own = own  # (broker id, broker epoch)
        self._settings = settings
        self._throttle = throttle
        self._connect = connect
        self._session = FetchSession()
        self._connection: Connection | None = None
        self._not_before: dict[PartitionKey, float] = {}
        self._wanted = asyncio.Event()
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        assert partition.topic_id is not None, "replication names topics by their id"
        key = (partition.topic_id, partition.index)
        self.partitions[key] = partition
        self._not_before.pop(key, None)
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"fetch from broker {self.leader}")

    def remove(self, partition: Partition) -> None:
        assert partition.topic_id is not None
        key = (partition.topic_id, partition.index)
        self.partitions.pop(key, None)
        self._not_before.pop(key, None)

    async def close(self) -> None:
        self.partitions.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._disconnect()

    # ---- the loop -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            positions, pause = self._due()
            if not positions:
                self._wanted.clear()
                try:
                    async with asyncio.timeout(pause):
                        await self._wanted.wait()
                except TimeoutError:
                    pass
                continue
            try:
                await self._fetch_once(positions)
                self._failures = 0
            except (Fault, OSError) as error:
                await self._failed(error)
            except Exception:
                # A bug must not end following: it is told loudly and tried again after the back-off.
                logger.exception("following broker %d failed", self.leader)
                await self._failed(None)

    def _due(self) -> tuple[dict[PartitionKey, FetchPosition], float | None]:
        """Where to fetch from now, and how long to wait when there is nothing (None: until a partition is added)."""
        now = asyncio.get_running_loop().time()
        positions: dict[PartitionKey, FetchPosition] = {}
        pause: float | None = None
        for key, partition in self.partitions.items():
            wait = self._not_before.get(key, 0.0) - now
            if wait <= 0 and self._throttle.holds_back(partition):
                wait = 0.1
            if wait > 0:
                pause = wait if pause is None else min(pause, wait)
                continue
            positions[key] = position_of(partition)
        return positions, pause

    async def _fetch_once(self, positions: Mapping[PartitionKey, FetchPosition]) -> None:
        connection = await self._connected()
        request = self._session.request(positions)
        broker_id, broker_epoch = self._own()
        settings = self._settings
        body = {
            "replica_id": broker_id,
            "replica_state": {"replica_id": broker_id, "replica_epoch": broker_epoch},
            "max_wait": settings.wait_max_ms,
            "min_bytes": settings.min_bytes,
            "max_bytes": settings.response_max_bytes,
            "isolation_level": 0,
            "session_id": request.session_id,
            "session_epoch": request.epoch,
            "topics": _by_topic(request.named, settings.max_bytes),
            "forgotten_topics_data": _forgotten(request.forgotten),
            "rack_id": "",
        }
        timeout = (settings.wait_max_ms + settings.socket_timeout_ms) / 1000
        answer = await connection.request(FETCH, body, timeout=timeout)
        if answer.error_code != ErrorCode.none:
            logger.info("broker %d ended the fetch session: %s", self.leader, answer.error_code.name)
            self._session.reset()
            if answer.error_code not in (
                ErrorCode.fetch_session_id_not_found,
                ErrorCode.invalid_fetch_session_epoch,
                ErrorCode.fetch_session_topic_id_error,
            ):
                await asyncio.sleep(settings.backoff_ms / 1000)
            return
        self._session.answered(int(answer.session_id))
        for topic in answer.responses:
            for data in topic.partitions:
                key = (topic.topic_id, int(data.partition_index))
                sent = positions.get(key)
                partition = self.partitions.get(key)
                if sent is not None and partition is not None and position_of(partition)[:3] == sent[:3]:
                    await self._take(key, partition, data)

    async def _take(self, key: PartitionKey, partition: Partition, data: Any) -> None:
        """One partition's answer. The partition stands where it stood when the request left."""
        code = data.error_code
        if code == ErrorCode.none:
            diverging = data.diverging_epoch
            if diverging.end_offset >= 0:
                self._cut(partition, EpochEnd(int(diverging.epoch), int(diverging.end_offset)))
                return
            records = data.records or b""
            try:
                partition.append_as_follower(memoryview(records), int(data.high_watermark), int(data.log_start_offset))
            except CorruptBatch as fault:
                logger.warning("%r: a batch from broker %d is damaged: %s", partition, self.leader, fault)
                self._back_off(key, self._settings.backoff_ms / 1000)
            except Fault as fault:
                logger.error("%r cannot follow broker %d: %s", partition, self.leader, fault)
                self._back_off(key, self._settings.backoff_ms / 1000)
            else:
                self._throttle.copied(partition, len(records))
        elif code == ErrorCode.offset_out_of_range:
            await self._find_start(key, partition)
        else:
            if code not in _PASSING:
                logger.warning("%r: broker %d answers %s", partition, self.leader, code.name)
            self._back_off(key, _PASSING_PAUSE_S if code in _PASSING else self._settings.backoff_ms / 1000)

    def _cut(self, partition: Partition, leader_end: EpochEnd) -> None:
        before, committed = partition.log_end_offset, partition.high_watermark
        after = partition.truncate_to_agree(leader_end)
        if after < committed:
            # Only an unclean election can do that; the operator chose it, but shall read about it.
            lost = committed - after
            logger.error("%r: %d committed records were cut to agree with broker %d", partition, lost, self.leader)
        elif after < before:
            logger.info("%r: cut from %d to %d to agree with broker %d", partition, before, after, self.leader)

    async def _find_start(self, key: PartitionKey, partition: Partition) -> None:
        """The leader's log begins after our end (its retention was faster than we): begin again at its start."""
        epoch = partition.leader_epoch
        connection = await self._connected()
        body = {
            "replica_id": self._own()[0],
            "isolation_level": 0,
            "topics": [
                {
                    "name": partition.topic,
                    "partitions": [
                        {"partition_index": partition.index, "current_leader_epoch": epoch, "timestamp": _EARLIEST}
                    ],
                }
            ],
        }
        answer = await connection.request(LIST_OFFSETS, body, timeout=self._settings.socket_timeout_ms / 1000)
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.none or partition.leader_epoch != epoch or key not in self.partitions:
            self._back_off(key, _PASSING_PAUSE_S)
            return
        start = int(found.offset)
        if start > partition.log_end_offset or partition.log_start_offset == partition.log_end_offset:
            end = partition.log_end_offset
            logger.warning(
                "%r: broker %d begins at %d, we end at %d: starting over", partition, self.leader, start, end
            )
            partition.start_over_at(start)
        else:
            self._back_off(key, self._settings.backoff_ms / 1000)

    # ---- trouble --------------------------------------------------------------------------------------------------

    def _back_off(self, key: PartitionKey, seconds: float) -> None:
        self._not_before[key] = asyncio.get_running_loop().time() + seconds

    async def _failed(self, error: Exception | None) -> None:
        self._failures += 1
        if error is not None and self._failures == 1:
            logger.info("lost the connection to broker %d: %s", self.leader, error)
        await self._disconnect()
        # The first retries are quick (a restart, a moved port), then the configured pace; jitter keeps followers apart.
        pause = min(self._settings.backoff_ms / 1000, 0.05 * 2 ** min(self._failures, 10))
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        await self._disconnect()
        address = self._address()
        if address is None:
            raise ConnectionError(f"broker {self.leader} is not registered")
        broker_id, _ = self._own()
        timeout = self._settings.socket_timeout_ms / 1000
        self._connection = await self._connect(*address, client_id=f"broker-{broker_id}-fetcher", timeout=timeout)
        return self._connection

    async def _disconnect(self) -> None:
        self._session.reset()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def position_of(partition: Partition) -> FetchPosition:
    return FetchPosition(
        partition.log_end_offset, partition.last_epoch(), partition.leader_epoch, partition.log_start_offset
    )


def _by_topic(named: Mapping[PartitionKey, FetchPosition], max_bytes: int) -> list[dict[str, Any]]:
    topics: dict[Any, list[dict[str, Any]]] = {}
    for (topic_id, index), position in named.items():
        topics.setdefault(topic_id, []).append(
            {
                "partition": index,
                "current_leader_epoch": position.leader_epoch,
                "fetch_offset": position.offset,
                "last_fetched_epoch": position.last_epoch,
                "log_start_offset": position.log_start,
                "partition_max_bytes": max_bytes,
            }
        )
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


def _forgotten(keys: tuple[PartitionKey, ...]) -> list[dict[str, Any]]:
    topics: dict[Any, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in topics.items()]
