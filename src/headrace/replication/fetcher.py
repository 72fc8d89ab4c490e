"""Fetches all partitions that one leader leads and this broker follows, over one connection.

    build (positions that are due) ──► one Fetch ──► per partition: append, truncate, start over or back off ──► again

One request is in flight at a time. The leader holds it until it has records to send (`replica.fetch.wait.max.ms`), so
the follower does not poll and gets a record right after its append. The fetch itself reconciles the logs: it names the
epoch of the follower's last record (see `core/follower`). A response counts only if the partition still follows this
leader in the same epoch and its log end is the same as when the request was sent.

Owned by the event loop: one task per leader, started with the first partition and ended with `close`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import CorruptBatch, ErrorCode, Fault, StorageFault
from headrace.replication.core.fetch_session import FetchPosition, FetchSession, PartitionKey
from headrace.replication.core.leader import EpochEnd
from headrace.replication.leader_channel import LeaderChannel, ReplicaFetch, WireChannel
from headrace.replication.partition import Partition
from headrace.replication.throttles import Throttles
from headrace.wire.replica_fetch import AnsweredPartition, FetchLimits

logger = logging.getLogger(__name__)

_OUT_OF_RANGE: Final = int(ErrorCode.offset_out_of_range)
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
# Leadership changes settle within an image or two, so these errors are retried soon; others after the full back-off.
_TEMPORARY_ERRORS: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
    }
)
_TEMPORARY_ERROR_PAUSE_S: Final = 0.05
_THROTTLED_PAUSE_S: Final = 0.1
# A response may contain all partitions of a broker, each with a new epoch to store (0.6 ms). After this many the event
# loop gets a turn, because it also renews leases and answers requests.
_PARTITIONS_PER_TURN: Final = 64


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`replica.fetch.*` and `replica.socket.timeout.ms`."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000


# `WireChannel.open`, or its replacement in a simulation.
OpenChannel = Callable[..., Awaitable[LeaderChannel]]


class LeaderFetcher:
    def __init__(
        self,
        leader: int,
        address: Callable[[], tuple[str, int] | None],
        own: Callable[[], tuple[int, int]],
        settings: FetchSettings,
        throttles: Throttles,
        connect: OpenChannel = WireChannel.open,
    ) -> None:
        self.leader = leader
        self.partitions: dict[PartitionKey, Partition] = {}
        self._address = address
        self._own = own  # (broker id, broker epoch)
        self._settings = settings
        self._throttles = throttles
        self._connect = connect
        self._session = FetchSession()
        self._channel: LeaderChannel | None = None
        self._limits = FetchLimits(settings.wait_max_ms, settings.min_bytes, settings.response_max_bytes)
        self._moved: dict[PartitionKey, None] = {}  # partitions whose position the session does not have yet
        self._not_before: dict[PartitionKey, float] = {}
        self._wanted = asyncio.Event()
        self._waits = False  # waiting for a response that the leader may delay
        self._hurried = False
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        assert partition.topic_id is not None, "replication names topics by their id"
        key = (partition.topic_id, partition.index)
        self.partitions[key] = partition
        self._moved[key] = None
        self._not_before.pop(key, None)
        self._wanted.set()
        if self._waits and partition.leader_epoch > 0:
            self._restart_request()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"fetch from broker {self.leader}")

    def remove(self, partition: Partition) -> None:
        assert partition.topic_id is not None
        key = (partition.topic_id, partition.index)
        self.partitions.pop(key, None)
        self._moved.pop(key, None)
        self._not_before.pop(key, None)
        self._session.drop(key)

    def _restart_request(self) -> None:
        """Cancels the request in flight and sends a new one. Called when an existing partition has a new leader:
        producers wait until the follower fetches it, and the request in flight does not name it and may wait at the
        leader for `replica.fetch.wait.max.ms`."""
        self._waits = False
        self._hurried = True
        asyncio.get_running_loop().call_soon(self._disconnect)

    def look_again(self, partition: Partition) -> None:
        """Updates the position of a partition whose log went offline."""
        assert partition.topic_id is not None
        self._moved[partition.topic_id, partition.index] = None

    async def close(self) -> None:
        self.partitions.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._disconnect()

    # The loop

    async def _run(self) -> None:
        while True:
            pause = self._update_session()
            if not self._session.wanted:
                self._wanted.clear()
                try:
                    async with asyncio.timeout(pause):
                        await self._wanted.wait()
                except TimeoutError:
                    pass
                continue
            try:
                await self._fetch_once(pause)
                self._failures = 0
            except (Fault, OSError) as error:
                hurried, self._hurried = self._hurried, False
                if not hurried:
                    await self._failed(error)
            except Exception:
                # A bug must not end the task: log it and try again after the back-off.
                logger.exception("following broker %d failed", self.leader)
                await self._failed(None)

    def _update_session(self) -> float | None:
        """Updates the session. Returns how long to wait if nothing is due (None: until a partition is added).

        The cost depends on the changed positions only: hundreds of idle partitions must not slow down the busy one.
        """
        now = asyncio.get_running_loop().time()
        pause: float | None = None
        if self._throttles.is_on:
            for key, partition in self.partitions.items():
                if key not in self._not_before and self._throttles.holds_back(partition):
                    self._back_off(key, _THROTTLED_PAUSE_S)
        for key, until in tuple(self._not_before.items()):
            if until > now:
                pause = until - now if pause is None else min(pause, until - now)
            else:
                del self._not_before[key]
                self._moved[key] = None
        for key in self._moved:
            if key in self._not_before:
                continue
            partition = self.partitions[key]
            if partition.log.offline_reason is None:
                self._session.want(key, position_of(partition))
            else:  # a fetch would claim that this replica has records that are on a failed disk
                self._back_off(key, self._settings.backoff_ms / 1000)
        self._moved.clear()
        return pause

    async def _fetch_once(self, pause: float | None) -> None:
        """`pause`: time until a throttled partition may be fetched again. The leader must answer by then."""
        channel = await self._connected()
        if self._moved:  # changed while connecting
            pause = self._update_session()
        settings = self._settings
        limits = self._limits
        if pause is not None and pause * 1000 < limits.max_wait_ms:
            limits = limits._replace(max_wait_ms=int(pause * 1000) + 1)
        request = ReplicaFetch(self._own(), limits, settings.max_bytes, self._session.request())
        self._waits = True
        try:
            answer = await channel.fetch(request, (settings.wait_max_ms + settings.socket_timeout_ms) / 1000)
        finally:
            self._waits = False
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            logger.info("broker %d ended the fetch session: %s", self.leader, code.name)
            self._session.reset()
            if code not in _SESSION_ERRORS:
                await asyncio.sleep(settings.backoff_ms / 1000)
            return
        self._session.answered(answer.session_id)
        await self._take_all(answer.partitions)

    async def _take_all(self, answered: Sequence[AnsweredPartition]) -> None:
        too_late: list[PartitionKey] = []
        for at, data in enumerate(answered, start=1):
            key = (data.topic_id, data.partition)
            sent = self._session.wanted.get(key)
            partition = self.partitions.get(key)
            if sent is None or partition is None or position_of(partition)[:3] != sent[:3]:
                continue
            self._moved[key] = None
            if data.error_code == _OUT_OF_RANGE:
                too_late.append(key)  # looked up afterwards, because the next response reuses the buffer
            else:
                self._process_partition(key, partition, data)
            if at % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        for key in too_late:
            await self._start_over_at_leader_log_start(key)

    def _process_partition(self, key: PartitionKey, partition: Partition, data: AnsweredPartition) -> None:
        """Processes the response for one partition, whose log end has not changed since the request."""
        if data.error_code:
            code = ErrorCode(data.error_code)
            if code not in _TEMPORARY_ERRORS:
                logger.warning("%r: broker %d answers %s", partition, self.leader, code.name)
            self._back_off(
                key, _TEMPORARY_ERROR_PAUSE_S if code in _TEMPORARY_ERRORS else self._settings.backoff_ms / 1000
            )
            return
        if data.diverging is not None:
            self._cut(partition, EpochEnd(*data.diverging), data.log_start_offset)
            return
        try:
            partition.append_as_follower(data.records, data.high_watermark, data.log_start_offset)
        except CorruptBatch as fault:
            logger.warning("%r: a batch from broker %d is damaged: %s", partition, self.leader, fault)
            self._back_off(key, self._settings.backoff_ms / 1000)
        except Fault as fault:
            logger.error("%r cannot follow broker %d: %s", partition, self.leader, fault)
            if isinstance(fault, StorageFault):
                partition.could_not_write()
            self._back_off(key, self._settings.backoff_ms / 1000)
        else:
            self._throttles.copied(partition, len(data.records))

    def _cut(self, partition: Partition, leader_end: EpochEnd, leader_log_start: int) -> None:
        before, committed = partition.log_end_offset, partition.high_watermark
        after = partition.truncate_to_agree(leader_end, leader_log_start)
        if after < committed:
            # Only an unclean election causes this. The operator allowed it, but must find it in the log.
            lost = committed - after
            logger.error("%r: %d committed records were cut to agree with broker %d", partition, lost, self.leader)
        elif after < before:
            logger.info("%r: cut from %d to %d to agree with broker %d", partition, before, after, self.leader)

    async def _start_over_at_leader_log_start(self, key: PartitionKey) -> None:
        """The leader has deleted the records after this log's end: starts over at the leader's log start."""
        partition = self.partitions.get(key)
        if partition is None:
            return
        epoch = partition.leader_epoch
        channel = await self._connected()
        code, start = await channel.earliest_offset(
            self._own()[0], partition.topic, partition.index, epoch, self._settings.socket_timeout_ms / 1000
        )
        if self.partitions.get(key) is not partition:
            return  # it has another leader, or was deleted: a pause for it would outlive it and end this task
        if code is not ErrorCode.none or partition.leader_epoch != epoch:
            self._back_off(key, _TEMPORARY_ERROR_PAUSE_S)
            return
        end = partition.log_end_offset
        if start > end or partition.log_start_offset == end:
            logger.warning(
                "%r: broker %d begins at %d, we end at %d: starting over", partition, self.leader, start, end
            )
            partition.start_over_at(start)
        else:
            self._back_off(key, self._settings.backoff_ms / 1000)

    # Errors

    def _back_off(self, key: PartitionKey, seconds: float) -> None:
        self._session.drop(key)
        self._not_before[key] = asyncio.get_running_loop().time() + seconds

    async def _failed(self, error: Exception | None) -> None:
        self._failures += 1
        if error is not None and self._failures == 1:
            logger.info("lost the connection to broker %d: %s", self.leader, error)
        self._disconnect()
        # The first retries are fast (a restart, a new port), later ones use the configured back-off with jitter.
        pause = min(self._settings.backoff_ms / 1000, 0.05 * 2 ** min(self._failures, 10))
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _connected(self) -> LeaderChannel:
        if self._channel is not None and not self._channel.closed:
            return self._channel
        self._disconnect()
        address = self._address()
        if address is None:
            raise ConnectionError(f"broker {self.leader} is not registered")
        broker_id, _ = self._own()
        timeout = self._settings.socket_timeout_ms / 1000
        client_id = f"broker-{broker_id}-fetcher"
        self._channel = await self._connect(*address, client_id=client_id, timeout_s=timeout)
        return self._channel

    def _disconnect(self) -> None:
        self._session.reset()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def position_of(partition: Partition) -> FetchPosition:
    return FetchPosition(
        partition.log_end_offset, partition.last_epoch(), partition.leader_epoch, partition.log_start_offset
    )
