"""Periodic work of a broker: flush, checkpoints, retention, expiry of producers, delayed deletions, compaction.

One task per job, each with its own interval from the settings (read again each time, so that a dynamic change takes
effect). Work that waits for the disk runs in a thread. A job that fails is logged and repeated after its interval. A
stop waits for the jobs in threads, because closing the logs writes the same files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, TypeVarTuple

from headrace.config import BrokerConfig
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import StorageFault
from headrace.kernel.plurals import counted
from headrace.storage.compaction.rounds import CleanerSettings, CompactionRounds
from headrace.storage.dirs.delayed_deletion import remove
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log

log = logging.getLogger("headrace.broker")
_Result = TypeVar("_Result")
_Facts = TypeVarTuple("_Facts")

_FLUSH_EVERY_MS: Final = 1_000
_EPOCHS_EVERY_MS: Final = 1_000
_PURGE_EVERY_MS: Final = 5_000
# Number of logs in one turn of retention before requests run: half a millisecond each.
_LOGS_AT_A_STRETCH: Final = 50
# Number of new logs whose files are created in one turn, and the pause after it: about half of the loop's time.
_FILES_MADE_AT_ONCE: Final = 8
_PAUSE_BETWEEN_FILES_S: Final = 0.004
# Answers and a follower's first fetch go first; a topic with an early write creates its files itself.
_PAUSE_BEFORE_FILES_S: Final = 0.2


class Housekeeping:
    def __init__(
        self,
        log_dirs: LogDirs,
        config: Callable[[], BrokerConfig],
        replicated_up_to: Callable[[Log], int],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._log_dirs = log_dirs
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []
        self._under_way: set[Awaitable[object]] = set()
        self._compaction = CompactionRounds(
            log_dirs, lambda: CleanerSettings.from_broker_config(config()), self._in_thread, replicated_up_to
        )

    def start(self) -> None:
        if self._log_dirs.lazy_logs is not None:
            making = self._make_files(self._log_dirs.lazy_logs)
            self._tasks.append(asyncio.create_task(making, name="housekeeping: files of new logs"))
        self._every("flush", lambda: _FLUSH_EVERY_MS, self._flush)
        self._every("leader epochs", lambda: _EPOCHS_EVERY_MS, self._save_epochs)
        self._every("checkpoints", self._interval("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint)
        self._every(
            "retention",
            self._interval("log.retention.check.interval.ms"),
            self._retention,
            first_after_ms=self._config().log_initial_task_delay_ms,
        )
        self._every("producer expiry", self._interval("producer.id.expiration.check.interval.ms"), self._expire)
        self._every("late deletions", lambda: _PURGE_EVERY_MS, self._purge)
        if self._config().log_cleaner_enable:
            self._every("compaction", self._interval("log.cleaner.backoff.ms"), self._compact)

    async def stop(self) -> None:
        self._compaction.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _in_thread(self, work: Callable[[*_Facts], _Result], *facts: *_Facts) -> _Result:
        running = asyncio.ensure_future(asyncio.to_thread(work, *facts))
        self._under_way.add(running)
        running.add_done_callback(self._under_way.discard)
        return await asyncio.shield(running)

    def _interval(self, key: str) -> Callable[[], int]:
        return lambda: int(self._config()[key])

    def _every(
        self,
        name: str,
        interval_ms: Callable[[], int],
        duty: Callable[[], Awaitable[None]],
        *,
        first_after_ms: int | None = None,
    ) -> None:
        async def run() -> None:
            first = True
            while True:
                pause = interval_ms()
                if first and first_after_ms is not None:
                    pause = min(pause, first_after_ms)
                first = False
                await asyncio.sleep(pause / 1000)
                try:
                    await duty()
                except Exception:  # boundary of a job: a failure must not end the other jobs
                    log.exception("%s failed; it is tried again", name)

        self._tasks.append(asyncio.create_task(run(), name=f"housekeeping: {name}"))

    async def _make_files(self, lazy_logs: LazyLogs) -> None:
        while True:
            await lazy_logs.wait()
            await asyncio.sleep(_PAUSE_BEFORE_FILES_S)
            more = True
            while more:
                more = lazy_logs.make_some(_FILES_MADE_AT_ONCE)
                await asyncio.sleep(_PAUSE_BETWEEN_FILES_S)

    async def _flush(self) -> None:
        await self._in_thread(self._log_dirs.flush_due, self._clock.wall_ms())

    async def _save_epochs(self) -> None:
        # On the loop, which owns them, and as new files are made: the others have half of its time meanwhile.
        saved = 0
        for one in self._log_dirs.logs():
            with contextlib.suppress(StorageFault):  # the directory is offline now
                saved += one.save_epochs()
            if saved >= _FILES_MADE_AT_ONCE:
                saved = 0
                await asyncio.sleep(_PAUSE_BETWEEN_FILES_S)

    async def _checkpoint(self) -> None:
        # The lists are made on the loop, which owns them; only the writing happens in the thread.
        by_directory = {d: self._log_dirs.logs_in(d) for d in self._log_dirs.directories if d.is_online}
        for directory, logs in by_directory.items():
            try:
                await self._in_thread(directory.checkpoint, logs)
            except StorageFault as fault:
                self._log_dirs.take_offline(directory, fault.message)

    async def _retention(self) -> None:
        # Hundreds of topics that were created together may lose a segment in the same round.
        deleted = 0
        for at, count in enumerate(self._log_dirs.retention(self._clock.wall_ms()), start=1):
            deleted += count
            if at % _LOGS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
        if deleted:
            log.info("retention deleted %s", counted(deleted, "segment"))

    async def _expire(self) -> None:
        self._log_dirs.expire_producers(self._clock.wall_ms(), self._config().producer_id_expiration_ms)

    async def _purge(self) -> None:
        # Deleting a large file takes time.
        for path in self._log_dirs.deletions.take_due(self._clock.wall_ms()):
            await self._in_thread(remove, path)

    async def _compact(self) -> None:
        # One log after the other until none is due.
        while await self._compaction.run_one(self._clock.wall_ms()) is not None:
            pass
