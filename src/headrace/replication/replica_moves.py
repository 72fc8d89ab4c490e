"""Moves replicas between the log directories of this broker (AlterReplicaLogDirs), while they serve.

One task per move; at most `num.replica.alter.log.dirs.threads` of them copy at the same time. All moves together keep
to `replica.alter.log.dirs.io.max.bytes.per.second`. A move ends when the future log has replaced the current one, when
an operator chooses another directory, or when the replica is dropped. A full target disk makes it wait. `future_logs`
describes the steps and what a crash leaves. Mirrors Kafka's ReplicaAlterLogDirsManager. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headrace.config import BrokerConfig
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault, NotLeader, Refused, StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.replication.core.throttle import RateLimit
from headrace.replication.log_copy import LAST_BYTES, PIECE_BYTES, LogCopy
from headrace.replication.partitions import Partitions
from headrace.storage.dirs.directory_choice import DirectoryChoice
from headrace.storage.dirs.future_logs import FutureLog, FutureLogs, has_long_name
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.log import Log

logger = logging.getLogger(__name__)

_THROTTLE_PAUSE_S: Final = 0.05
_FAULT_PAUSE_S: Final = 1.0


class MovableLogs(Protocol):
    """The methods of LogDirs that moves use."""

    directories: list[LogDir]
    futures: FutureLogs
    choice: DirectoryChoice

    def log(self, topic: str, partition: int) -> Log | None: ...
    def logs_in(self, directory: LogDir) -> list[Log]: ...
    def directory_of(self, log: Log) -> LogDir: ...
    def begin_move(self, key: TopicPartition, target: LogDir, *, now_ms: int = 0) -> FutureLog: ...
    def finish_move(self, key: TopicPartition, *, now_ms: int = 0) -> Log: ...


class ReplicaMoves:
    def __init__(
        self,
        logs: MovableLogs,
        partitions: Partitions,
        config: Callable[[], BrokerConfig],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._limit = RateLimit()
        self._slots = asyncio.Semaphore(config().num_replica_alter_log_dirs_threads or len(logs.directories))
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Continues the moves that the last stop interrupted."""
        for key in self._logs.futures:
            self._start(key, self._logs.futures[key])

    # AlterReplicaLogDirs

    def begin(self, topic: str, index: int, path: str) -> None:
        """Begins to move the replica to the log directory `path`. Raises Refused and StorageFault, as Kafka does."""
        key = TopicPartition(topic, index)
        if has_long_name(key):
            raise Refused(ErrorCode.invalid_topic_exception, f"{topic}: the name is too long for a move")
        target = self._target(path)
        log = self._logs.log(topic, index)
        if log is not None and log.offline_reason is not None:
            raise StorageFault(f"{key} is offline: {log.offline_reason}")
        future = self._logs.futures.get(key)
        if future is not None and future.home is not target:
            self._logs.futures.cancel(key, self._clock.wall_ms())
            logger.info("the move of %s to %s is cancelled", key, future.home.path)
            future = None
        partition = self._partitions.get(topic, index)
        if log is None or partition is None:
            try:
                self._partitions.held(topic, index)
            except NotLeader:
                # A reassignment may bring the replica: the operator chooses its directory before.
                self._logs.choice.want(key, target)
            raise Refused(ErrorCode.replica_not_available, f"this broker has no replica of {key}")
        if future is not None or self._logs.directory_of(log) is target:
            return
        # With a directory offline the broker cannot know whether that one already has a future log.
        if offline := [directory for directory in self._logs.directories if not directory.is_online]:
            raise StorageFault(f"{key} cannot move while the log directory {offline[0].path} is offline")
        self._start(key, self._logs.begin_move(key, target, now_ms=self._clock.wall_ms()))

    def _target(self, path: str) -> LogDir:
        for directory in self._logs.directories:
            if str(directory.path.absolute()) == path:
                break
        else:
            names = ", ".join(str(directory.path.absolute()) for directory in self._logs.directories)
            raise Refused(ErrorCode.log_dir_not_found, f"{path} is not in log.dirs ({names})")
        if not directory.is_online:
            raise StorageFault(f"log directory {path} is offline: {directory.offline_reason}")
        if self._logs.choice.is_cordoned(directory):
            raise Refused(ErrorCode.invalid_replica_assignment, f"log directory {path} is in cordoned.log.dirs")
        return directory

    # Copying

    def _start(self, key: TopicPartition, future: FutureLog) -> None:
        task = asyncio.get_running_loop().create_task(self._run(key, future), name=f"move of {key}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key) if self._tasks.get(key) is done else None)

    def _is_on(self, key: TopicPartition, future: FutureLog) -> bool:
        return self._logs.futures.get(key) is future

    async def _run(self, key: TopicPartition, future: FutureLog) -> None:
        copy, is_reported = LogCopy(future.log, self._clock.wall_ms), False
        async with self._slots:
            while self._is_on(key, future):
                try:
                    if await self._advance(key, future, copy):
                        return
                    is_reported = False
                    continue
                except (Fault, OSError) as fault:  # an OSError: the current log cannot be read
                    if not self._is_on(key, future):
                        return
                    if future.log.offline_reason is not None:
                        logger.error("the move of %s to %s has failed: %s", key, future.home.path, fault)
                        return
                    if not is_reported:
                        logger.warning("the move of %s to %s waits: %s", key, future.home.path, fault)
                    is_reported = True
                await asyncio.sleep(_FAULT_PAUSE_S)

    async def _advance(self, key: TopicPartition, future: FutureLog, copy: LogCopy) -> bool:
        """One step of the move. Returns whether it is finished."""
        current, partition = self._logs.log(*key), self._partitions.get(*key)
        if current is None or partition is None:
            await asyncio.sleep(_THROTTLE_PAUSE_S)  # the first image of this broker is not applied yet
            return False
        if current.offline_reason is not None:
            raise StorageFault(f"{key} is offline: {current.offline_reason}")
        future.log.update_config(current.config)
        self._limit.rate = self._config().replica_alter_log_dirs_io_max_bytes_per_second
        if self._limit.exceeded(self._clock.monotonic_ms()):
            await asyncio.sleep(_THROTTLE_PAUSE_S)
            return False
        if copy.catch_up(current):
            source = current.directory.parent
            # No await between the two: no record is appended to the old log any more.
            partition.log = self._logs.finish_move(key, now_ms=self._clock.wall_ms())
            logger.info("%s moved from %s to %s", key, source, future.home.path)
            return True
        step = copy.next_step(current, min(PIECE_BYTES, max(1, self._limit.rate)))
        size, work = step or (0, _nothing)
        await _in_thread(work)
        copy.copied(size)
        self._limit.spent(size, self._clock.monotonic_ms())
        # A log that grows all the time always has a last piece, so the copy is prepared a little before its end.
        if size >= LAST_BYTES or copy.is_prepared(current):
            return False
        await _in_thread(future.log.flush)
        if self._is_on(key, future):
            await _in_thread(partial(future.home.checkpoint, self._logs.logs_in(future.home)))
            copy.prepared()
        return False

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _nothing() -> None:
    """The step of a copy that has everything."""


async def _in_thread(work: Callable[[], None]) -> None:
    """Runs a step in a thread. A cancelled move waits for its step: closing the logs writes the same files."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise
